// SPDX-License-Identifier: Apache-2.0
//! The files that say which plugins judge pods below, a `KubeSchedulerConfiguration` of which the profiles count, and what
//! makes one virtual node better than another.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use tensile_core::scheduling::{Profile, ProfileError, Weights};

/// Name of the profile for all clusters that have none of their own.
const DEFAULT: &str = "default-scheduler";

/// Largest weight.
const MOST: u32 = 100;

/// The profiles of lower clusters. All of them can be used.
#[derive(Debug, Clone, Default)]
pub struct Profiles {
    /// By the name of the cluster.
    named: BTreeMap<String, Value>,
}

/// Why a file of profiles cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfilesError {
    /// It cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// It is no `KubeSchedulerConfiguration`.
    #[error("the scheduler profile {} is not valid: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Weights that mean nothing.
    #[error("the weights in {} are not valid: {reason}", path.display())]
    Weights {
        /// The file.
        path: PathBuf,
        /// What is wrong with them.
        reason: String,
    },
    /// A profile means nothing here.
    #[error("profile {name} in {}: {error}", path.display())]
    Profile {
        /// The file.
        path: PathBuf,
        /// Its schedulerName.
        name: String,
        /// What is wrong with it.
        error: ProfileError,
    },
}

/// Reads a file of weights.
pub fn weights(path: &Path) -> Result<Weights, ProfilesError> {
    let path = path.to_owned();
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => return Err(ProfilesError::Read { path, error }),
    };
    let weights: Weights = match serde_saphyr::from_str(&text) {
        Ok(weights) => weights,
        Err(error) => return Err(ProfilesError::Weights { path, reason: error.to_string() }),
    };
    let Weights { headroom, tightness, stranding, preferred, .. } = weights;
    let all = [headroom, tightness, stranding, preferred];
    if all.iter().any(|weight| *weight > MOST) || all == [0; 4] {
        return Err(ProfilesError::Weights {
            path,
            reason: format!("each is from 0 to {MOST}, and one of them above 0"),
        });
    }
    Ok(weights)
}

#[derive(Deserialize)]
struct Configuration {
    kind: String,
    #[serde(default)]
    profiles: Vec<Value>,
}

impl Profiles {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<Self, ProfilesError> {
        let path = path.to_owned();
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text, path),
            Err(error) => Err(ProfilesError::Read { path, error }),
        }
    }

    fn parse(text: &str, path: PathBuf) -> Result<Self, ProfilesError> {
        let Configuration { kind, profiles } = match serde_saphyr::from_str(text) {
            Ok(configuration) => configuration,
            Err(error) => return Err(ProfilesError::Malformed { path, reason: error.to_string() }),
        };
        if kind != "KubeSchedulerConfiguration" {
            return Err(ProfilesError::Malformed { path, reason: format!("its kind is {kind:?}") });
        }
        let mut named = BTreeMap::new();
        for profile in profiles {
            let name = profile["schedulerName"].as_str().unwrap_or(DEFAULT).to_owned();
            if let Err(error) = Profile::read(&profile) {
                return Err(ProfilesError::Profile { path, name, error });
            }
            named.insert(name, profile);
        }
        Ok(Self { named })
    }

    /// The plugins for the cluster of this name.
    pub fn of(&self, cluster: &str) -> Profile {
        let profile = self.named.get(cluster).or_else(|| self.named.get(DEFAULT));
        profile.and_then(|profile| Profile::read(profile).ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Profiles, String> {
        Profiles::parse(text, "p.yaml".into()).map_err(|error| error.to_string())
    }

    const TWO: &str = "
kind: KubeSchedulerConfiguration
profiles:
- plugins: {filter: {disabled: [{name: NodePorts}]}}
- schedulerName: east
  plugins: {multiPoint: {disabled: [{name: InterPodAffinity}]}}
";

    #[test]
    fn a_cluster_has_its_own_profile_or_the_default_one() {
        let profiles = parse(TWO).unwrap();
        let shown = |cluster| format!("{:?}", profiles.of(cluster));
        assert!(!shown("east").contains("InterPodAffinity") && shown("west").contains("InterPodAffinity"));
        assert_eq!(format!("{:?}", Profiles::default().of("east")), format!("{:?}", Profile::default()));
    }

    #[test]
    fn what_is_wrong_is_told_with_the_file_and_the_profile() {
        for (text, words) in [
            ("kind: Pod", vec!["p.yaml", "\"Pod\""]),
            ("[", vec!["p.yaml is not valid"]),
            (
                "{kind: KubeSchedulerConfiguration, profiles: [{schedulerName: a, plugins: {filter: {enabled: [{name: Mine}]}}}]}",
                vec!["profile a", "Mine"],
            ),
        ] {
            let told = parse(text).unwrap_err();
            assert!(words.iter().all(|word| told.contains(word)), "{told}");
        }
    }

    #[test]
    fn weights_that_mean_nothing_are_refused_with_their_file() {
        let folder = std::env::temp_dir().join(format!("tensile-weights-{}", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&folder, text).unwrap();
            weights(&folder).map_err(|error| error.to_string())
        };
        let good = read("{mode: binpack, headroom: 8}").unwrap();
        assert_eq!((good.headroom, good.tightness), (8, Weights::default().tightness));
        for text in
            ["{headroom: 101}", "{headroom: 0, tightness: 0, stranding: 0, preferred: 0}", "{speed: 1}", "{mode: any}"]
        {
            let told = read(text).unwrap_err();
            assert!(told.contains("tensile-weights-") && told.contains("not valid"), "{told}");
        }
        std::fs::remove_file(&folder).unwrap();
    }
}
