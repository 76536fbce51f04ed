// SPDX-License-Identifier: Apache-2.0
//! What an operator gets: images, charts installed by helm on a real node, and their rights against what was asked.

mod charts;
mod desk;
mod images;
mod migration;
mod monitoring;
mod pages;
mod proof;
mod rights;
mod start;
mod uses;
