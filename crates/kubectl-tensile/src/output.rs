// SPDX-License-Identifier: Apache-2.0
//! What is printed: one value as a table that fits the terminal, as JSON or as YAML.

#![allow(clippy::print_stdout, reason = "what a command prints is its result")]

use std::io::{IsTerminal, stdout};

use anyhow::Context as _;
use serde::Serialize;

use crate::args::Format;

/// Width of a table where no terminal says otherwise, in characters.
const WIDTH: usize = 120;
/// No column is narrower because the terminal is.
const NARROWEST: usize = 20;

/// Prints values.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    format: Format,
    width: usize,
    colours: bool,
}

/// A table: a head and rows, of as many cells each. The last column gives way when the terminal is narrow.
#[derive(Debug, Default)]
pub struct Table {
    /// The titles.
    pub head: &'static [&'static str],
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    text: String,
    mood: Mood,
}

/// How a cell looks on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// As any text.
    Plain,
    /// All is well: green.
    Good,
    /// Something is waited for: yellow.
    Waiting,
    /// Something is wrong: red.
    Bad,
}

impl Mood {
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Good => Some("32"),
            Self::Waiting => Some("33"),
            Self::Bad => Some("31"),
        }
    }
}

impl Cell {
    /// A cell that looks like this.
    pub fn new(text: impl Into<String>, mood: Mood) -> Self {
        Self { text: text.into(), mood }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Mood::Plain)
    }
}

impl Output {
    /// For standard output, in this format. Colours only on a terminal, and not if `NO_COLOR` is set.
    pub fn new(format: Format) -> Self {
        let terminal = stdout().is_terminal();
        let size = rustix::termios::tcgetwinsize(stdout()).ok().filter(|_| terminal);
        let width = size.map(|size| usize::from(size.ws_col)).filter(|width| *width > 0);
        let colours = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { format, width: width.unwrap_or(WIDTH), colours }
    }

    /// Prints the value: as it is, or as the table that `table` makes of it.
    pub fn print<T: Serialize>(&self, value: &T, table: impl FnOnce(&T) -> Table) -> anyhow::Result<()> {
        match self.format {
            Format::Table => print!("{}", table(value).render(self.width, self.colours)),
            Format::Json => println!("{}", serde_json::to_string_pretty(value)?),
            Format::Yaml => print!("{}", serde_saphyr::to_string(value).context("cannot write YAML")?),
        }
        Ok(())
    }
}

impl Table {
    /// The table as text: columns as wide as their widest cell, the last one cut to `width`.
    fn render(&self, width: usize, colours: bool) -> String {
        let head: Vec<Cell> = self.head.iter().map(|title| Cell::from(*title)).collect();
        let lines = || [&head].into_iter().chain(&self.rows);
        let columns = self.head.len();
        let widest = |column: usize| lines().filter_map(|row| row.get(column)).map(|cell| len(&cell.text)).max();
        let widths: Vec<usize> = (0..columns).map(|column| widest(column).unwrap_or_default()).collect();
        let before: usize = widths.iter().take(columns.saturating_sub(1)).map(|width| width + 2).sum();
        let last = width.saturating_sub(before).max(NARROWEST);
        let mut text = String::new();
        for row in lines() {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let is_last = column + 1 == columns;
                let shown = if is_last { shortened(&cell.text, last) } else { cell.text.clone() };
                let gap = if is_last { 0 } else { widths.get(column).map_or(0, |width| width + 2 - len(&shown)) };
                match cell.mood.code().filter(|_| colours) {
                    Some(code) => line.extend(["\u{1b}[", code, "m", &shown, "\u{1b}[0m"]),
                    None => line += &shown,
                }
                line.extend(std::iter::repeat_n(' ', gap));
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

fn len(text: &str) -> usize {
    text.chars().count()
}

fn shortened(text: &str, width: usize) -> String {
    if len(text) <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let rows = vec![
            vec![Cell::from("east"), Cell::new("yes", Mood::Good), Cell::from("a text that is longer than the rest")],
            vec![Cell::from("north-west"), Cell::new("no", Mood::Bad), Cell::from("short")],
        ];
        Table { head: &["NAME", "READY", "WHY"], rows }
    }

    #[test]
    fn columns_line_up_and_the_last_one_gives_way() {
        let expected = "NAME        READY  WHY\n\
                        east        yes    a text that is long…\n\
                        north-west  no     short\n";
        assert_eq!(table().render(39, false), expected);
        assert_eq!(table().render(10, false), expected, "not narrower than can be read");
    }

    #[test]
    fn colours_take_no_room() {
        let text = table().render(80, true);
        assert!(text.contains("east        \u{1b}[32myes\u{1b}[0m    a text"), "{text}");
    }
}
