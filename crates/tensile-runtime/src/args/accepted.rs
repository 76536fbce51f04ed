// SPDX-License-Identifier: Apache-2.0
//! Flags of the programs that a service stands in for, taken so that their manifests start: without effect, or refused
//! where their meaning cannot be given.

use std::marker::PhantomData;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

/// The flags a service takes for its users' sake. Each: its name, how it is written, and what stands in its place or why
/// it is refused.
pub trait Foreign {
    /// Where they come from, as the heading of the help page says it.
    const HEADING: &'static str;
    /// Flags that have no effect.
    const WITHOUT_EFFECT: &'static [(&'static str, Shape, &'static str)];
    /// Flags whose meaning cannot be given; only their empty or harmless value is taken.
    const REFUSED: &'static [(&'static str, Shape, &'static str)];
}

/// How a flag is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// `--flag` or `--flag=BOOL`.
    Switch,
    /// `--flag VALUE` or `--flag=VALUE`.
    Value,
}

/// Flags that were given though they have no effect, of those in `T`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accepted<T> {
    /// One sentence for each, to be logged as a warning.
    pub without_effect: Vec<String>,
    /// One sentence for each that would change what happens, and cannot: a reason not to start.
    pub refused: Vec<String>,
    table: PhantomData<T>,
}

impl<T: Foreign> Args for Accepted<T> {
    fn augment_args(command: Command) -> Command {
        let harmless = |shape| if shape == Shape::Switch { "Only false: " } else { "Only empty: " };
        let without_effect =
            T::WITHOUT_EFFECT.iter().map(|&(name, shape, instead)| (name, shape, capitalized(instead)));
        let refused =
            T::REFUSED.iter().map(|&(name, shape, reason)| (name, shape, format!("{}{reason}", harmless(shape))));
        without_effect.chain(refused).fold(command, |command, (name, shape, help)| {
            let arg = Arg::new(name)
                .long(name)
                .action(ArgAction::Set)
                .value_name(if shape == Shape::Switch { "BOOL" } else { "VALUE" })
                .help_heading(T::HEADING)
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

impl<T: Foreign> FromArgMatches for Accepted<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = |name: &str| match matches.value_source(name) {
            Some(ValueSource::CommandLine) => matches.get_one::<String>(name).cloned(),
            _ => None,
        };
        let without_effect = T::WITHOUT_EFFECT
            .iter()
            .filter(|(name, ..)| given(name).is_some())
            .map(|(name, _, instead)| format!("--{name} has no effect: {instead}"))
            .collect();
        let refused = T::REFUSED
            .iter()
            .filter(|(name, ..)| given(name).is_some_and(|value| !matches!(value.as_str(), "" | "false")))
            .map(|(name, _, instead)| format!("--{name} is not supported: {instead}"))
            .collect();
        Ok(Self { without_effect, refused, table: PhantomData })
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
