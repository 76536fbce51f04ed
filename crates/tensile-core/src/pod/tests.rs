//! Tests of translation, by field and by property.
