// SPDX-License-Identifier: Apache-2.0
//! Amounts per resource, as one value: what a pod asks for, what a node has left.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess},
};
use serde_json::Value;

use super::quantity::{Format, Quantity};

#[cfg(test)]
mod tests;

/// Name of a resource: `cpu`, `memory`, `example.com/gpu`. The usual names take no memory of their own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceName(Cow<'static, str>);

impl ResourceName {
    /// CPU.
    pub const CPU: Self = Self(Cow::Borrowed("cpu"));
    /// Memory.
    pub const MEMORY: Self = Self(Cow::Borrowed("memory"));
    /// Local scratch space.
    pub const EPHEMERAL_STORAGE: Self = Self(Cow::Borrowed("ephemeral-storage"));
    /// The number of pods.
    pub const PODS: Self = Self(Cow::Borrowed("pods"));

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the name is of the family `hugepages-<size>`.
    #[must_use]
    pub fn is_hugepages(&self) -> bool {
        self.0.starts_with("hugepages-")
    }

    /// How amounts of this resource are usually written: bytes in powers of 1024, the rest in powers of 1000.
    fn format(&self) -> Format {
        if *self == Self::MEMORY || *self == Self::EPHEMERAL_STORAGE || self.is_hugepages() {
            Format::BinarySi
        } else {
            Format::DecimalSi
        }
    }
}

impl From<&str> for ResourceName {
    fn from(name: &str) -> Self {
        [Self::CPU, Self::MEMORY, Self::EPHEMERAL_STORAGE, Self::PODS]
            .into_iter()
            .find(|known| known.0 == name)
            .unwrap_or_else(|| Self(Cow::Owned(name.to_owned())))
    }
}

impl<'de> Deserialize<'de> for ResourceName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(NameVisitor)
    }
}

struct NameVisitor;

impl de::Visitor<'_> for NameVisitor {
    type Value = ResourceName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a resource name")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<ResourceName, E> {
        Ok(name.into())
    }
}

/// Amounts in thousandths of a unit, sorted by resource name.
///
/// Thousandths are exact for everything an API server stores: it rounds every resource list up to them (upstream
/// `SetDefaults_ResourceList`). A resource that is absent counts as zero, yet is not the same as a resource of amount
/// zero: a node that reports `example.com/gpu: 0` says that it knows the resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResourceVector(Vec<(ResourceName, i128)>);

impl ResourceVector {
    /// No resources.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Reads a resource list (`{"cpu": "100m", "memory": "1Gi"}`); `null` is an empty one.
    ///
    /// # Errors
    /// When it is neither, or a value is no quantity.
    pub fn from_json(list: &Value) -> Result<Self, serde_json::Error> {
        Option::deserialize(list).map(Option::unwrap_or_default)
    }

    /// The resource list, each amount in its canonical form.
    #[must_use]
    pub fn to_json(&self) -> Value {
        self.quantities()
            .map(|(name, quantity)| (name.as_str().to_owned(), Value::from(quantity.to_string())))
            .collect()
    }

    /// The amounts as quantities, in the format that is usual for each resource.
    fn quantities(&self) -> impl Iterator<Item = (&ResourceName, Quantity)> {
        self.0.iter().map(|(name, milli)| (name, Quantity::from_milli(*milli, name.format())))
    }

    /// Names and amounts in thousandths, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&ResourceName, i128)> {
        self.0.iter().map(|(name, milli)| (name, *milli))
    }

    /// The amount of `name` in thousandths, when the resource is known here.
    #[must_use]
    pub fn get(&self, name: &ResourceName) -> Option<i128> {
        self.position(name).ok().and_then(|at| self.0.get(at)).map(|(_, milli)| *milli)
    }

    /// Whether no resource is known here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets the amount of `name` to `milli` thousandths.
    pub fn set(&mut self, name: ResourceName, milli: i128) {
        self.merge(name, milli, |_, new| new);
    }

    /// Adds `milli` thousandths of `name`.
    pub fn add(&mut self, name: ResourceName, milli: i128) {
        self.merge(name, milli, i128::saturating_add);
    }

    /// Adds every amount of `other`.
    pub fn add_all(&mut self, other: &Self) {
        self.merge_all(other, i128::saturating_add);
    }

    /// Raises every amount to that of `other` where that is larger; a resource known to one side only is taken over.
    pub fn raise_to(&mut self, other: &Self) {
        self.merge_all(other, i128::max);
    }

    /// What is left after taking `other` away: never below zero, and only resources that are known here.
    #[must_use]
    pub fn less(&self, other: &Self) -> Self {
        let left = self.0.iter().map(|(name, milli)| {
            let taken = other.get(name).unwrap_or(0);
            (name.clone(), milli.saturating_sub(taken).max(0))
        });
        Self(left.collect())
    }

    /// Whether all of this can be taken from `free`. A zero amount always fits, as in kube-scheduler's fit check.
    #[must_use]
    pub fn fits(&self, free: &Self) -> bool {
        self.0.iter().all(|(name, milli)| *milli <= 0 || *milli <= free.get(name).unwrap_or(0))
    }

    fn position(&self, name: &ResourceName) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.cmp(name))
    }

    fn merge(&mut self, name: ResourceName, milli: i128, combine: impl FnOnce(i128, i128) -> i128) {
        match self.position(&name) {
            Ok(at) => {
                if let Some((_, known)) = self.0.get_mut(at) {
                    *known = combine(*known, milli);
                }
            }
            Err(at) => self.0.insert(at, (name, milli)),
        }
    }

    fn merge_all(&mut self, other: &Self, combine: impl Fn(i128, i128) -> i128) {
        for (name, milli) in &other.0 {
            self.merge(name.clone(), *milli, &combine);
        }
    }
}

impl FromIterator<(ResourceName, i128)> for ResourceVector {
    /// Collects names and thousandths; amounts of one name add up.
    fn from_iter<I: IntoIterator<Item = (ResourceName, i128)>>(amounts: I) -> Self {
        amounts.into_iter().fold(Self::new(), |mut vector, (name, milli)| {
            vector.add(name, milli);
            vector
        })
    }
}

impl Serialize for ResourceVector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.quantities().map(|(name, quantity)| (name.as_str(), quantity)))
    }
}

impl<'de> Deserialize<'de> for ResourceVector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(VectorVisitor)
    }
}

struct VectorVisitor;

impl<'de> de::Visitor<'de> for VectorVisitor {
    type Value = ResourceVector;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of resource names to quantities")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ResourceVector, A::Error> {
        let mut vector = ResourceVector(Vec::with_capacity(map.size_hint().unwrap_or(2)));
        while let Some((name, quantity)) = map.next_entry::<ResourceName, Quantity>()? {
            vector.set(name, quantity.milli());
        }
        Ok(vector)
    }
}
