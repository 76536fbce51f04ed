// SPDX-License-Identifier: Apache-2.0
//! Flags from the command line and from an optional file, through one parser.
//!
//! A settings file says the same as the command line, with the same names: each of its entries becomes a flag, unless that
//! flag was typed. So there is one list of flags, one check of each value and one help
//! text, and the file can say nothing that the command line cannot.

mod accepted;
pub mod value;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, Command, CommandFactory, Error, Parser};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Spanned};

pub use accepted::{Accepted, Foreign, Shape};

/// The flag that names a settings file, to be flattened into a service's arguments.
#[derive(Debug, Clone, Default, Args)]
pub struct ConfigArgs {
    /// Settings file (YAML): any of these flags, without the dashes, as `name: value`; a flag that is typed wins
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Parses `argv` (with the program's name in front) and the file that its `--config` names.
///
/// `A` should contain [`ConfigArgs`] and require no flag, because the file may hold it.
///
/// # Errors
///
/// What clap says of the command line, or a sentence with the file and line that is wrong. Print it with
/// [`Error::print`]; [`Error::exit_code`] is 2, or 0 for `--help` and `--version`.
pub fn parse<A: Parser>(argv: impl IntoIterator<Item = OsString>) -> Result<A, Error> {
    let argv: Vec<OsString> = argv.into_iter().collect();
    let command = A::command().args_override_self(true);
    let typed = command.clone().try_get_matches_from(&argv)?;
    let path = typed.try_get_one::<PathBuf>("config").ok().flatten();
    let matches = match path {
        None => typed,
        Some(path) => {
            let mut all = argv;
            all.extend(file_flags(&command, path, &typed)?);
            command.clone().try_get_matches_from(all)?
        }
    };
    A::from_arg_matches(&matches).map_err(|error| error.format(&mut command.clone()))
}

/// The help page of `A` as plain text, 100 columns wide: the source of the flags' reference in the docs.
pub fn help<A: CommandFactory>() -> String {
    A::command().term_width(100).render_long_help().to_string()
}

/// The entries of the file as flags, less those that were typed. Each is checked by itself so that an error has its line.
fn file_flags(command: &Command, path: &Path, typed: &ArgMatches) -> Result<Vec<OsString>, Error> {
    let refuse = |what: String| Error::raw(ErrorKind::InvalidValue, what).format(&mut command.clone());
    let text = std::fs::read_to_string(path)
        .map_err(|error| refuse(format!("cannot read the settings file {}: {error}", path.display())))?;
    let options = serde_saphyr::options! { with_snippet: false, duplicate_keys: DuplicateKeyPolicy::PassThrough };
    let entries = serde_saphyr::from_str_with_options::<Option<Entries>>(&text, options)
        .map_err(|error| refuse(format!("the settings file {} is not valid: {error}", path.display())))?
        .unwrap_or_default();
    let mut flags = Vec::new();
    let mut lines = BTreeMap::new();
    for (name, value) in entries.0 {
        let line = name.defined.line();
        if let Some(first) = lines.insert(name.value.clone(), line) {
            return Err(refuse(format!("{}:{line}: {:?} was set in line {first} already", path.display(), name.value)));
        }
        let flag = format!("--{}={}", name.value, value.0);
        match accepted(command, &name.value, &flag) {
            Ok(id) if typed.value_source(id) == Some(ValueSource::CommandLine) => {}
            Ok(_) => flags.push(flag.into()),
            Err(error) => return Err(refuse(format!("{}:{line}: {error}", path.display()))),
        }
    }
    Ok(flags)
}

/// The command's name for this one flag, if it may come from a file; if not, why.
fn accepted<'c>(command: &'c Command, name: &str, flag: &str) -> Result<&'c str, String> {
    let is_setting = |arg: &&clap::Arg| {
        arg.get_long() == Some(name)
            && matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
            && arg.get_id() != "config"
    };
    let known = command.get_arguments().find(is_setting).map(|arg| arg.get_id().as_str());
    match command.clone().try_get_matches_from(["", flag]) {
        Ok(_) => known.ok_or_else(|| format!("{name:?} cannot be set in a file")),
        Err(error) if error.kind() == ErrorKind::UnknownArgument => Err(match error.get(ContextKind::SuggestedArg) {
            Some(ContextValue::String(meant)) => {
                format!("unknown setting {name:?}; did you mean {:?}?", meant.trim_start_matches('-'))
            }
            _ => format!("unknown setting {name:?}"),
        }),
        Err(error) if known.is_none() => Err(format!("{name:?} cannot be set in a file ({})", error.kind())),
        Err(error) => {
            Err(error.to_string().trim().trim_start_matches("error: ").lines().next().unwrap_or("").to_owned())
        }
    }
}

/// The settings in the order of the file, with a name as often as it comes.
#[derive(Debug, Default)]
struct Entries(Vec<(Spanned<String>, FlagValue)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Settings;
        impl<'de> Visitor<'de> for Settings {
            type Value = Entries;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("settings as `name: value`")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Entries, M::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Settings)
    }
}

/// A value as it would be typed: a scalar as it stands, a list joined by commas, a map as `key=value` joined by commas.
#[derive(Debug)]
struct FlagValue(String);

impl<'de> Deserialize<'de> for FlagValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Value;
        impl<'de> Visitor<'de> for Value {
            type Value = FlagValue;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text, number, boolean, list or map of texts")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<FlagValue, E> {
                Ok(FlagValue(text.to_owned()))
            }

            fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<FlagValue, E> {
                Ok(FlagValue(value.to_string()))
            }

            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<FlagValue, E> {
                Ok(FlagValue(value.to_string()))
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<FlagValue, E> {
                Ok(FlagValue(value.to_string()))
            }

            fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<FlagValue, E> {
                Ok(FlagValue(value.to_string()))
            }

            fn visit_unit<E: serde::de::Error>(self) -> Result<FlagValue, E> {
                Err(E::custom("a setting without a value; leave it out instead"))
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<FlagValue, S::Error> {
                let mut items = Vec::new();
                while let Some(FlagValue(item)) = seq.next_element()? {
                    items.push(item);
                }
                Ok(FlagValue(items.join(",")))
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<FlagValue, M::Error> {
                let mut pairs = BTreeMap::new();
                while let Some((key, FlagValue(value))) = map.next_entry::<String, FlagValue>()? {
                    if pairs.insert(key.clone(), format!("{key}={value}")).is_some() {
                        return Err(M::Error::custom(format!("{key:?} comes twice")));
                    }
                }
                Ok(FlagValue(pairs.into_values().collect::<Vec<_>>().join(",")))
            }
        }
        deserializer.deserialize_any(Value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::LogArgs;

    #[derive(Debug, Parser)]
    #[command(name = "service")]
    struct Flags {
        #[command(flatten)]
        config: ConfigArgs,
        #[command(flatten)]
        log: LogArgs,
        #[arg(long)]
        client_qps: Option<f32>,
        #[arg(long, value_delimiter = ',')]
        ignore_labels: Option<Vec<String>>,
        #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
        disable_taint: Option<bool>,
        #[arg(long)]
        node_labels: Option<String>,
    }

    /// Parses with a settings file of this content, if any, and these arguments.
    fn with_file(content: Option<&str>, args: &[&str]) -> Result<Flags, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.yaml");
        let mut typed = vec![OsString::from("service")];
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
            typed.extend(["--config".into(), path.clone().into_os_string()]);
        }
        typed.extend(args.iter().map(OsString::from));
        parse::<Flags>(typed).map_err(|error| error.to_string().replace(&path.display().to_string(), "settings.yaml"))
    }

    #[test]
    fn without_a_file_the_command_line_counts() {
        assert_eq!(with_file(None, &["--client-qps", "5"]).unwrap().client_qps, Some(5.0));
    }

    #[test]
    fn a_file_holds_numbers_lists_maps_and_booleans() {
        let file = "client-qps: 7.5\nignore-labels: [a, b]\ndisable-taint: true\nnode-labels:\n  rack: r1\n  zone: \"2\"\nlog-format: json\n";
        let flags = with_file(Some(file), &[]).unwrap();
        assert_eq!(flags.client_qps, Some(7.5));
        assert_eq!(flags.ignore_labels.unwrap(), ["a", "b"]);
        assert_eq!(flags.disable_taint, Some(true));
        assert_eq!(flags.node_labels.as_deref(), Some("rack=r1,zone=2"));
        assert_eq!(flags.log.log_format, Some(crate::telemetry::LogFormat::Json));
        assert!(flags.config.config.is_some());
    }

    #[test]
    fn a_flag_that_is_typed_wins_over_the_file() {
        let flags = with_file(Some("client-qps: 7\nignore-labels: [a]\n"), &["--client-qps=9"]).unwrap();
        assert_eq!(flags.client_qps, Some(9.0));
        assert_eq!(flags.ignore_labels.unwrap(), ["a"]);
    }

    #[test]
    fn a_list_that_is_typed_replaces_that_of_the_file() {
        let flags = with_file(Some("ignore-labels: [a, b]\n"), &["--ignore-labels=c"]).unwrap();
        assert_eq!(flags.ignore_labels.unwrap(), ["c"]);
    }

    #[test]
    fn an_unknown_setting_is_refused_with_its_line_and_what_was_meant() {
        let error = with_file(Some("# rates\nclient-qps: 7\nclient-qsp: 8\n"), &[]).unwrap_err();
        assert!(
            error.starts_with("error: settings.yaml:3: unknown setting \"client-qsp\"; did you mean \"client-qps\"?"),
            "{error}"
        );
    }

    #[test]
    fn a_wrong_value_is_refused_with_its_line() {
        let error = with_file(Some("client-qps: fast\n"), &[]).unwrap_err();
        assert!(error.starts_with("error: settings.yaml:1: invalid value 'fast' for '--client-qps"), "{error}");
    }

    #[test]
    fn a_file_cannot_name_another_file_nor_ask_for_help() {
        for (file, name) in [("config: other.yaml\n", "config"), ("help: true\n", "help"), ("v: 1\n", "v")] {
            let error = with_file(Some(file), &[]).unwrap_err();
            assert!(error.contains("settings.yaml:1:") && error.contains(&format!("{name:?}")), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_no_map_is_refused() {
        let error = with_file(Some("- a\n- b\n"), &[]).unwrap_err();
        assert!(error.contains("settings.yaml is not valid: expected mapping start at line 1"), "{error}");
    }

    #[test]
    fn a_setting_that_comes_twice_is_refused() {
        let error = with_file(Some("client-qps: 1\nclient-qps: 2\n"), &[]).unwrap_err();
        assert!(error.starts_with("error: settings.yaml:2: \"client-qps\" was set in line 1 already\n"), "{error}");
    }

    #[test]
    fn an_empty_file_says_nothing() {
        assert_eq!(with_file(Some("# nothing yet\n"), &[]).unwrap().client_qps, None);
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = parse::<Flags>(["service", "--config", "/nowhere/x.yaml"].map(OsString::from)).unwrap_err();
        assert!(error.to_string().contains("cannot read the settings file /nowhere/x.yaml"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn an_unknown_flag_is_refused_with_a_suggestion() {
        let error = parse::<Flags>(["service", "--client-qsp=1"].map(OsString::from)).unwrap_err();
        assert!(error.to_string().contains("--client-qps"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}
