// SPDX-License-Identifier: Apache-2.0
//! How the namespaces of the upper cluster become those of the lower one.

use std::{borrow::Cow, fmt, str::FromStr};

use crate::names;

/// Longest name of a namespace, in characters.
const NAMESPACE_MAX: usize = 63;
/// So much of a name is left where a hash has to follow.
const HEAD: usize = 46;
/// Longest text before or behind a namespace.
const TEXT_MAX: usize = 30;
/// So much of the name of a virtual node is in a text that nobody chose.
const NODE_HEAD: usize = 20;
/// Namespaces that are the lower cluster's own.
const RESERVED: &str = "kube-";

/// How a namespace upstairs becomes the one below (`--namespace-mapping`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mapping {
    /// The one of the same name.
    #[default]
    Same,
    /// One of its own: this text, a dash, and its name. An empty text is chosen by [`Mapping::of_link`].
    Prefix(String),
    /// One of its own: its name, a dash, and this text.
    Suffix(String),
    /// This one, for all namespaces upstairs.
    Single(String),
}

/// The text is no mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownMapping {
    /// It is none of the four.
    #[error("none of same, prefix, suffix and single:NAMESPACE")]
    Kind,
    /// The text before or behind a namespace cannot be in its name.
    #[error("{0:?} cannot be part of a namespace: lower-case letters, digits and '-', at most {max}", max = TEXT_MAX)]
    Text(String),
    /// The namespace cannot be one.
    #[error("{0:?} is not the name of a namespace that pods may have")]
    Namespace(String),
}

impl FromStr for Mapping {
    type Err = UnknownMapping;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, rest) = text.split_once(':').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
        let part = || match rest {
            None => Ok(String::new()),
            Some(part) if is_label(part) && part.len() <= TEXT_MAX => Ok(part.to_owned()),
            Some(part) => Err(UnknownMapping::Text(part.to_owned())),
        };
        match (kind, rest) {
            ("same", None) => Ok(Self::Same),
            ("prefix", _) => part().map(Self::Prefix),
            ("suffix", _) => part().map(Self::Suffix),
            ("single", Some(namespace)) if is_label(namespace) && !namespace.starts_with(RESERVED) => {
                Ok(Self::Single(namespace.to_owned()))
            }
            ("single", Some(namespace)) => Err(UnknownMapping::Namespace(namespace.to_owned())),
            _ => Err(UnknownMapping::Kind),
        }
    }
}

impl fmt::Display for Mapping {
    /// As it is typed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => f.write_str("same"),
            Self::Prefix(text) if text.is_empty() => f.write_str("prefix"),
            Self::Suffix(text) if text.is_empty() => f.write_str("suffix"),
            Self::Prefix(text) => write!(f, "prefix:{text}"),
            Self::Suffix(text) => write!(f, "suffix:{text}"),
            Self::Single(namespace) => write!(f, "single:{namespace}"),
        }
    }
}

impl Mapping {
    /// The one that is noted on a virtual node; the same names where nothing is.
    #[must_use]
    pub fn noted(annotation: Option<&str>) -> Self {
        annotation.and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// The mapping of one link: a text that nobody chose becomes one that no other link comes to.
    #[must_use]
    pub fn of_link(self, upper_cluster: &str, virtual_node: &str) -> Self {
        let chosen = |text: String| if text.is_empty() { own_text(upper_cluster, virtual_node) } else { text };
        match self {
            Self::Prefix(text) => Self::Prefix(chosen(text)),
            Self::Suffix(text) => Self::Suffix(chosen(text)),
            other => other,
        }
    }

    /// The namespace below of the namespace `upper`: at most 63 characters, always the same.
    #[must_use]
    pub fn namespace<'a>(&'a self, upper: &'a str) -> Cow<'a, str> {
        match self {
            Self::Same => Cow::Borrowed(upper),
            Self::Single(namespace) => Cow::Borrowed(namespace),
            Self::Prefix(text) => Cow::Owned(fitting(format!("{text}-{upper}"))),
            Self::Suffix(text) => Cow::Owned(fitting(format!("{upper}-{text}"))),
        }
    }

    /// The only namespace below, where there is but one.
    #[must_use]
    pub fn only(&self) -> Option<&str> {
        match self {
            Self::Single(namespace) => Some(namespace),
            _ => None,
        }
    }

    /// Objects of several namespaces upstairs are in one below.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Single(_))
    }

    /// A namespace below is for one link, and for one namespace upstairs.
    #[must_use]
    pub fn is_own(&self) -> bool {
        matches!(self, Self::Prefix(_) | Self::Suffix(_))
    }
}

/// What does not fit gets a hash, and has then exactly 63 characters: no name that fits has so many, so that nobody can
/// give a namespace the name that another one's hash makes.
fn fitting(name: String) -> String {
    match name.get(..HEAD) {
        Some(head) if name.len() >= NAMESPACE_MAX => format!("{head}-{:016x}", names::fnv1a(name.as_bytes())),
        _ => name,
    }
}

/// The head of the node's name, for people, and a hash of the link.
fn own_text(upper_cluster: &str, virtual_node: &str) -> String {
    let hash = names::fnv1a(format!("{upper_cluster}/{virtual_node}").as_bytes()) & 0xffff_ffff;
    let head = virtual_node.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(NODE_HEAD);
    let head = head.collect::<String>().to_ascii_lowercase();
    format!("{}-{hash:08x}", head.trim_matches('-')).trim_start_matches('-').to_owned()
}

/// A DNS-1123 label, as names of namespaces are.
fn is_label(text: &str) -> bool {
    let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= NAMESPACE_MAX
        && text.starts_with(ends)
        && text.ends_with(ends)
        && text.chars().all(|c| ends(c) || c == '-')
}
