// SPDX-License-Identifier: Apache-2.0
//! Pictures of how memory and time grow with the number of nodes.

use std::path::Path;

use plotters::prelude::*;

/// What was measured of one size.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    /// Lower nodes.
    pub(crate) nodes: f64,
    /// Memory in MiB.
    pub(crate) memory: f64,
    /// Seconds until all of it is known.
    pub(crate) start: f64,
}

/// What is drawn of each size: its unit, and the value.
type Panel = (&'static str, fn(&Size) -> f64);

const PANELS: [Panel; 2] =
    [("MiB resident", |size| size.memory), ("seconds of CPU until all is known", |size| size.start)];

/// Draws both against the nodes, each beside the line from nothing through its last point: what is linear lies on it.
pub(crate) fn draw(sizes: &[Size], path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let picture = SVGBackend::new(path, (900, 340)).into_drawing_area();
    picture.fill(&WHITE)?;
    for (area, (unit, value)) in picture.split_evenly((1, PANELS.len())).iter().zip(PANELS) {
        let Some((nodes, highest)) = sizes.last().map(|last| (last.nodes, value(last))) else { continue };
        let mut chart = ChartBuilder::on(area)
            .margin(16)
            .x_label_area_size(36)
            .y_label_area_size(52)
            .build_cartesian_2d(0.0..nodes * 1.05, 0.0..highest * 1.1)?;
        chart.configure_mesh().light_line_style(TRANSPARENT).x_desc("lower nodes").y_desc(unit).x_labels(5).draw()?;
        chart.draw_series(LineSeries::new([(0.0, 0.0), (nodes, highest)], BLACK.mix(0.3)))?;
        let points = sizes.iter().map(|size| (size.nodes, value(size)));
        chart.draw_series(points.clone().map(|point| Circle::new(point, 4, BLUE.filled())))?;
        chart.draw_series(LineSeries::new(points, &BLUE))?;
    }
    picture.present()?;
    Ok(())
}
