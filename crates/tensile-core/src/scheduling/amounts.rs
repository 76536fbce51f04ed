// SPDX-License-Identifier: Apache-2.0
//! Amounts of resources as kube-scheduler counts them: thousandths of CPU, whole units of the rest.

use crate::resources::{ResourceName, ResourceVector};

/// What a pod takes of a node, besides being one pod; or what a node has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Amounts {
    /// Thousandths of CPU, bytes of memory, bytes of ephemeral storage.
    pub main: [i64; MAIN],
    /// The other resources in whole units, sorted by name. None is zero.
    pub scalars: Box<[(ResourceName, i64)]>,
}

/// Resources that each node has: [`CPU`], [`MEMORY`], [`EPHEMERAL_STORAGE`].
pub(super) const MAIN: usize = 3;
/// Place of CPU among the main resources.
pub(super) const CPU: usize = 0;
/// Place of memory among the main resources.
pub(super) const MEMORY: usize = 1;
/// Place of ephemeral storage among the main resources.
pub(super) const EPHEMERAL_STORAGE: usize = 2;
/// The names of the main resources.
pub(super) const MAIN_NAMES: [ResourceName; MAIN] =
    [ResourceName::CPU, ResourceName::MEMORY, ResourceName::EPHEMERAL_STORAGE];

impl Amounts {
    /// The amounts of a vector, each rounded up to the unit it is counted in. `pods` is not among them.
    #[must_use]
    pub fn of(vector: &ResourceVector) -> Self {
        let mut amounts = Self::default();
        let mut scalars = Vec::new();
        for (name, milli) in vector.iter() {
            if *name == ResourceName::CPU {
                amounts.main[CPU] = clamped(milli);
            } else if *name == ResourceName::MEMORY {
                amounts.main[MEMORY] = units(milli);
            } else if *name == ResourceName::EPHEMERAL_STORAGE {
                amounts.main[EPHEMERAL_STORAGE] = units(milli);
            } else if *name != ResourceName::PODS && milli != 0 {
                scalars.push((name.clone(), units(milli)));
            }
        }
        amounts.scalars = scalars.into();
        amounts
    }
}

/// Thousandths as whole units, rounded away from zero as upstream's `Value` does.
pub(super) fn units(milli: i128) -> i64 {
    let (whole, rest) = (milli / 1000, milli % 1000);
    clamped(whole + rest.signum())
}

pub(super) fn clamped(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// An amount of a main resource as people read it: `2.5` CPUs, `1.5Gi`.
pub(super) fn readable(resource: usize, amount: i64) -> String {
    if resource == CPU {
        let text = format!("{}.{:03}", amount / 1000, (amount % 1000).abs());
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let units = [("Ti", 1_i64 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    for (suffix, size) in units {
        if amount >= size {
            // Tenths, rounded down: never more than there is.
            let tenths = i128::from(amount) * 10 / i128::from(size);
            let (whole, tenth) = (tenths / 10, tenths % 10);
            return if tenth == 0 { format!("{whole}{suffix}") } else { format!("{whole}.{tenth}{suffix}") };
        }
    }
    amount.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cpu_counts_in_thousandths_and_the_rest_in_units_rounded_up() {
        let vector = ResourceVector::from_json(&json!({
            "cpu": "1500m", "memory": "1Ki", "ephemeral-storage": "1500m", "pods": 3,
            "example.com/gpu": 2, "example.com/none": 0
        }))
        .unwrap();
        let amounts = Amounts::of(&vector);
        assert_eq!(amounts.main, [1500, 1024, 2]);
        assert_eq!(&*amounts.scalars, &[("example.com/gpu".into(), 2)]);
    }

    #[test]
    fn amounts_are_written_as_people_read_them() {
        assert_eq!(readable(CPU, 2500), "2.5");
        assert_eq!(readable(CPU, 4000), "4");
        assert_eq!(readable(CPU, 100), "0.1");
        assert_eq!(readable(MEMORY, 3 << 29), "1.5Gi");
        assert_eq!(readable(MEMORY, 1 << 20), "1Mi");
        assert_eq!(readable(MEMORY, 5), "5");
    }
}
