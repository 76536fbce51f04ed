// SPDX-License-Identifier: Apache-2.0
//! A pod that something happens to all the time does not drown out the others.

use anyhow::ensure;
use serde_json::Value;

use crate::{about, events, pair, told};

#[test]
fn a_flood_of_events_of_one_pod_is_cut_and_those_of_others_come_through() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("flood", async |above, below| {
            for name in ["loud", "quiet"] {
                above.create(&pair.link.pod(name)).await?;
            }
            above.until_all(2, "are running", |pod| pod["status"]["phase"] == "Running").await?;
            let (upper, lower) = (events(&pair.upper, above.namespace()), events(&pair.lower, above.namespace()));
            let loud = below.get("loud").await?;
            for number in 0..60 {
                lower.create(&format!("loud.{number}"), told(&loud, "Unhealthy", "probe failed")).await?;
            }
            lower.create("quiet.1", told(&below.get("quiet").await?, "BackOff", "x")).await?;
            let quiet = about(&above.get("quiet").await?);
            upper.until_one(&quiet, "is there", |event: &Value| event["reason"] == "BackOff").await?;
            let shown = upper.list(&about(&above.get("loud").await?), "").await?.len();
            // 25 at once, and one more every ten seconds of a minute at most.
            ensure!((1..=31).contains(&shown), "{shown} of 60");
            Ok(())
        })
        .await
    })
}
