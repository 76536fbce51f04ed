// SPDX-License-Identifier: Apache-2.0
//! The result, as a Markdown table.

/// One figure.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// What was measured.
    pub(super) figure: String,
    /// How much it was.
    pub(super) measured: String,
    /// How much it shall be; empty where there is no target.
    pub(super) target: &'static str,
    /// How much it was with tensile-kube on a machine of this size; empty where nobody measured it.
    pub(super) tensile_kube: &'static str,
}

impl Row {
    pub(super) fn new(figure: impl Into<String>, measured: impl Into<String>) -> Self {
        Self { figure: figure.into(), measured: measured.into(), target: "", tensile_kube: "" }
    }

    pub(super) fn target(self, target: &'static str) -> Self {
        Self { target, ..self }
    }

    pub(super) fn tensile_kube(self, tensile_kube: &'static str) -> Self {
        Self { tensile_kube, ..self }
    }
}

pub(super) fn table(rows: &[Row]) -> String {
    let line = |row: &Row| format!("| {} | {} | {} | {} |\n", row.figure, row.measured, row.target, row.tensile_kube);
    let head = "| figure | measured | target | tensile-kube |\n|---|---|---|---|\n";
    rows.iter().map(line).fold(head.to_owned(), |table, line| table + &line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_in_columns() {
        let rows = [Row::new("ratio", "0.9").target("<= 1.0").tensile_kube("2.3"), Row::new("other", "1 s")];
        assert_eq!(
            table(&rows),
            "| figure | measured | target | tensile-kube |\n|---|---|---|---|\n\
             | ratio | 0.9 | <= 1.0 | 2.3 |\n| other | 1 s |  |  |\n"
        );
    }
}
