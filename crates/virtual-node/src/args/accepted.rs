//! Flags of tensile-kube and of the library under it that have no effect here, taken so that its manifests start.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

/// Flags that have no effect, and what stands in their place. `klog` is how they logged.
const WITHOUT_EFFECT: &[(&str, Shape, &str)] = &[
    ("authentication-token-webhook", Shape::Switch, "tokens are always reviewed"),
    ("authentication-token-webhook-cache-ttl", Shape::Value, "the kubelet's own times are used"),
    ("authorization-webhook-cache-authorized-ttl", Shape::Value, "the kubelet's own times are used"),
    ("authorization-webhook-cache-unauthorized-ttl", Shape::Value, "the kubelet's own times are used"),
    ("cluster-domain", Shape::Value, "the lower cluster's own domain is used"),
    ("enable-node-lease", Shape::Switch, "there is always a lease"),
    ("full-resync-period", Shape::Value, "watches need no resync"),
    ("os", Shape::Value, "taken from the lower nodes"),
    ("provider-config", Shape::Value, "there is no file for the provider"),
    ("startup-timeout", Shape::Value, "the node appears at once and says whether it is ready"),
    ("klog.add_dir_header", Shape::Switch, LOGGING),
    ("klog.alsologtostderr", Shape::Switch, LOGGING),
    ("klog.log_backtrace_at", Shape::Value, LOGGING),
    ("klog.log_dir", Shape::Value, LOGGING),
    ("klog.log_file", Shape::Value, LOGGING),
    ("klog.log_file_max_size", Shape::Value, LOGGING),
    ("klog.logtostderr", Shape::Switch, LOGGING),
    ("klog.skip_headers", Shape::Switch, LOGGING),
    ("klog.skip_log_headers", Shape::Switch, LOGGING),
    ("klog.stderrthreshold", Shape::Value, LOGGING),
    ("klog.v", Shape::Value, LOGGING),
    ("klog.vmodule", Shape::Value, LOGGING),
];

const LOGGING: &str = "use --log-level";

/// Flags whose meaning we cannot give; only their empty or harmless value is taken.
const REFUSED: &[(&str, Shape, &str)] = &[
    ("namespace", Shape::Value, "a virtual node serves all namespaces"),
    ("no-verify-clients", Shape::Switch, "clients of the kubelet API are always verified"),
];

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// `--flag` or `--flag=BOOL`.
    Switch,
    /// `--flag VALUE` or `--flag=VALUE`.
    Value,
}

/// Flags that were given though they have no effect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accepted {
    /// One sentence for each, to be logged as a warning.
    pub without_effect: Vec<String>,
    /// One sentence for each that would change what happens, and cannot: a reason not to start.
    pub refused: Vec<String>,
}

impl Args for Accepted {
    fn augment_args(command: Command) -> Command {
        let harmless = |shape| if shape == Shape::Switch { "Only false: " } else { "Only empty: " };
        let without_effect = WITHOUT_EFFECT.iter().map(|&(name, shape, instead)| (name, shape, capitalized(instead)));
        let refused =
            REFUSED.iter().map(|&(name, shape, reason)| (name, shape, format!("{}{reason}", harmless(shape))));
        without_effect.chain(refused).fold(command, |command, (name, shape, help)| {
            let arg = Arg::new(name)
                .long(name)
                .action(ArgAction::Set)
                .value_name(if shape == Shape::Switch { "BOOL" } else { "VALUE" })
                .help_heading("Accepted from tensile-kube, without effect")
                .hide_short_help(true)
                .help(help);
            command.arg(match shape {
                Shape::Switch => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
                Shape::Value => arg.allow_hyphen_values(true),
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Accepted {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = |name: &str| match matches.value_source(name) {
            Some(ValueSource::CommandLine) => matches.get_one::<String>(name).cloned(),
            _ => None,
        };
        let without_effect = WITHOUT_EFFECT
            .iter()
            .filter(|(name, ..)| given(name).is_some())
            .map(|(name, _, instead)| format!("--{name} has no effect: {instead}"))
            .collect();
        let refused = REFUSED
            .iter()
            .filter(|(name, ..)| given(name).is_some_and(|value| !matches!(value.as_str(), "" | "false")))
            .map(|(name, _, instead)| format!("--{name} is not supported: {instead}"))
            .collect();
        Ok(Self { without_effect, refused })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
