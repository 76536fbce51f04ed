//! Objects as a watch delivers them: raw JSON with a slim view.
