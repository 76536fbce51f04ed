// SPDX-License-Identifier: Apache-2.0
//! Tokens are renewed, made again, and outlive neither their pod nor, where it matters, this process.

use anyhow::ensure;
use e2e::link::Link;
use e2e::pods::{Pods, uid};
use serde_json::Value;

use crate::objects::Objects;
use crate::{ensure_absent, expire, pair, projecting, secret_of, token};

#[test]
fn a_token_is_renewed_when_its_time_has_come_and_the_others_stay() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("renewed", async |above, below| {
            above.create(&projecting(pair.link.pod("web"), "vault", 1200)).await?;
            above.until_ready("web").await?;
            let first = secret_of(&pair.lower, below, "web").await?;
            let secrets = Objects::secrets(&pair.lower, above.namespace());
            let name = first["metadata"]["name"].as_str().unwrap_or_default();
            let noted = |secret: &Value| -> Value {
                let text = secret["metadata"]["annotations"]["tensile.io/tokens"].as_str().unwrap_or_default();
                serde_json::from_str(text).unwrap_or_default()
            };
            let mut lives = noted(&first);
            lives["token-1"]["expires"] = "2026-01-01T00:00:00Z".into();
            let note = serde_json::json!({ "metadata": { "annotations": { "tensile.io/tokens": lives.to_string() } } });
            secrets.merge(name, note).await?;
            let second = secrets.until(name, "has a new token", |secret| secret["data"] != first["data"]).await?;
            ensure!(uid(&second) == uid(&first), "it is another Secret");
            ensure!(second["data"]["token-0"] == first["data"]["token-0"], "the other token was renewed too");
            ensure!(second["data"]["token-1"] != first["data"]["token-1"], "the token is the same");
            ensure!(noted(&second)["token-1"]["expires"].as_str() > Some("2026-06"), "{}", noted(&second));
            Ok(())
        })
        .await
    })
}

#[test]
fn tokens_that_somebody_deletes_are_requested_again() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("deleted", async |above, below| {
            above.create(&pair.link.pod("web")).await?;
            above.until_ready("web").await?;
            let first = secret_of(&pair.lower, below, "web").await?;
            let secrets = Objects::secrets(&pair.lower, above.namespace());
            let name = first["metadata"]["name"].as_str().unwrap_or_default();
            secrets.delete(name).await?;
            let second = secrets.until(name, "is there again", |secret| uid(secret) != uid(&first)).await?;
            ensure!(second["metadata"]["ownerReferences"] == first["metadata"]["ownerReferences"], "{second}");
            ensure!(token(&second, "token-0")? != token(&first, "token-0")?, "the token is the same");
            Ok(())
        })
        .await
    })
}

/// Killed, it leaves tokens to none but pods that live; started again, it goes on with those that are there.
#[test]
fn a_killed_process_leaves_no_tokens_behind_and_shows_none() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let link = Link::builder(&pair.upper, &pair.lower, "killed").args(&["--log-level=debug"]).start().await?;
        pair.within("killed", async |above, below| {
            let names = ["stays", "expires", "goes"];
            for name in names {
                above.create(&link.pod(name)).await?;
                above.until_ready(name).await?;
            }
            let secrets = Objects::secrets(&pair.lower, above.namespace());
            let mut tokens = Vec::new();
            let mut seen = Vec::new();
            for name in names {
                let secret = secret_of(&pair.lower, below, name).await?;
                tokens.push(token(&secret, "token-0")?);
                seen.push(secret);
            }
            let name = |index: usize| seen[index]["metadata"]["name"].as_str().unwrap_or_default();
            link.kill();
            below.delete("goes", Some(0)).await?;
            secrets.until_gone(name(2)).await?;
            expire(&secrets, &seen[1]).await?;
            link.restart()?;
            let renewed = secrets.until(name(1), "is renewed", |secret| secret["data"] != seen[1]["data"]).await?;
            tokens.push(token(&renewed, "token-0")?);
            ensure!(secrets.get(name(0)).await? == seen[0], "a token that lives was touched");

            let log = std::fs::read_to_string(link.process().log())?;
            ensure!(log.contains("tokens kept below"), "this is not its log:\n{log}");
            let shown = shown(above, below).await?;
            for token in &tokens {
                ensure_absent(token, &log, "the log")?;
                ensure_absent(token, &shown, "a pod")?;
            }
            Ok(())
        })
        .await
    })
}

/// All that the pods of both clusters show.
async fn shown(above: &Pods, below: &Pods) -> anyhow::Result<String> {
    let pods = [above.list().await?, below.list().await?].concat();
    Ok(Value::from(pods).to_string())
}
