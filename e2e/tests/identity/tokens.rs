// SPDX-License-Identifier: Apache-2.0
//! Tokens are requested, carried and renewed, or their absence is told.

use anyhow::{Context as _, ensure};
use e2e::link::Link;
use e2e::pods::{uid, with};
use k8s_openapi::api::authentication::v1::TokenReview;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::objects::Objects;
use crate::{claims, pair, projecting, secret_of, token};

#[test]
fn a_pod_has_the_tokens_of_its_upper_account_below_and_they_go_with_it() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("tokens", async |above, below| {
            let upper = above.create(&projecting(pair.link.pod("web"), "vault", 1200)).await?;
            above.until_ready("web").await?;
            let lower = below.get("web").await?;
            let secret = secret_of(&pair.lower, below, "web").await?;
            let owner = &secret["metadata"]["ownerReferences"][0];
            ensure!(owner["uid"] == uid(&lower) && owner["kind"] == "Pod", "{}", secret["metadata"]);
            ensure!(lower["spec"]["automountServiceAccountToken"] == false, "{}", lower["spec"]);
            ensure!(lower["spec"]["serviceAccountName"] == "default", "{}", lower["spec"]);

            // In the order in which the pod projects them: its own, then the one of admission.
            for (key, audience, seconds) in
                [("token-0", "vault", 1200), ("token-1", "https://kubernetes.default.svc", 31_536_000)]
            {
                let claims = claims(&token(&secret, key)?)?;
                ensure!(claims["aud"] == json!([audience]), "{claims}");
                ensure!(claims["kubernetes.io"]["pod"]["uid"] == uid(&upper), "{claims}");
                ensure!(claims["sub"] == format!("system:serviceaccount:{}:default", above.namespace()), "{claims}");
                let life = claims["exp"].as_i64().zip(claims["iat"].as_i64()).map(|(exp, iat)| exp - iat);
                ensure!(life == Some(seconds), "{claims}");
            }
            let mut review = TokenReview::default();
            review.spec.token = token(&secret, "token-1")?;
            let reviews: Api<TokenReview> = Api::all(pair.upper.client());
            let status = reviews.create(&PostParams::default(), &review).await?.status.context("no status")?;
            ensure!(status.authenticated == Some(true), "{status:?}");

            let volumes = lower["spec"]["volumes"].as_array().context("no volumes")?;
            let access = volumes.iter().find(|v| v["name"].as_str().is_some_and(|n| n.starts_with("kube-api-access-")));
            let sources = &access.context("the token volume is gone")?["projected"]["sources"];
            ensure!(sources[0]["secret"]["items"] == json!([{ "key": "token-1", "path": "token" }]), "{sources}");
            let name = sources[1]["configMap"]["name"].as_str().context("no CA")?;
            let maps = |cluster| Objects::config_maps(cluster, above.namespace());
            let (copy, theirs) = (maps(&pair.lower).get(name).await?, maps(&pair.lower).get("kube-root-ca.crt").await?);
            let ours = maps(&pair.upper).get("kube-root-ca.crt").await?;
            ensure!(name != "kube-root-ca.crt" && copy["data"] == ours["data"] && theirs["data"] != ours["data"]);

            let env = &lower["spec"]["containers"][0]["env"];
            let port = pair.upper.server().rsplit(':').next().unwrap_or_default().to_owned();
            ensure!(env[0] == json!({ "name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1" }), "{env}");
            ensure!(env[1] == json!({ "name": "KUBERNETES_SERVICE_PORT", "value": port }), "{env}");

            let requests = pair.upper.audit()?.by("tensile-virtual-node").requests;
            let asked = requests.iter().filter(|request| {
                request.kind() == "create serviceaccounts/token"
                    && request.object_ref.as_ref().is_some_and(|object| object.namespace == above.namespace())
                    && request.response_status.as_ref().is_some_and(|status| status.code == 201)
            });
            ensure!(asked.count() == 2, "each token is requested once");

            above.delete("web", None).await?;
            let name = secret["metadata"]["name"].as_str().unwrap_or_default();
            Objects::secrets(&pair.lower, above.namespace()).until_gone(name).await
        })
        .await
    })
}

#[test]
fn without_service_accounts_pods_get_nothing_and_are_told_of_what_they_asked_for() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let off = Link::builder(&pair.upper, &pair.lower, "off").args(&["--enable-serviceaccount=false"]);
        let off = off.start().await?;
        pair.within("off", async |above, below| {
            above.create(&projecting(off.pod("web"), "vault", 600)).await?;
            above.until_ready("web").await?;
            let lower = below.get("web").await?;
            ensure!(lower["metadata"]["annotations"].get("tensile.io/tokens").is_none(), "{}", lower["metadata"]);
            ensure!(lower["spec"]["containers"][0].get("env").is_none(), "{}", lower["spec"]);
            let volumes = lower["spec"]["volumes"].as_array().map_or(0, Vec::len);
            ensure!(volumes == 1 && lower["spec"]["automountServiceAccountToken"] == false, "{}", lower["spec"]);
            let told = above.until_event("web", "FieldsDropped").await?;
            ensure!(told.contains("spec.volumes[extra].projected.sources[0].serviceAccountToken"), "{told}");
            let list = pair.lower.kubectl(&["-n", above.namespace(), "get", "secrets", "-o", "name"]).await?;
            ensure!(list.stdout.is_empty(), "{}", String::from_utf8_lossy(&list.stdout));
            Ok(())
        })
        .await
    })
}

#[test]
fn a_pod_whose_account_is_gone_waits_and_says_so() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        pair.within("account", async |above, below| {
            let account = |verb: &'static str| [verb, "serviceaccount", "robot", "-n", above.namespace()];
            pair.upper.kubectl(&account("create")).await?;
            let gated =
                json!({ "spec": { "serviceAccountName": "robot", "schedulingGates": [{ "name": "e2e/wait" }] } });
            above.create(&with(pair.link.pod("web"), gated)).await?;
            pair.upper.kubectl(&account("delete")).await?;
            above
                .merge("web", json!({ "spec": { "schedulingGates": [{ "$patch": "delete", "name": "e2e/wait" }] } }))
                .await?;
            let told = above.until_event("web", "ServiceAccountNotFound").await?;
            ensure!(told.contains(r#"serviceaccounts "robot" not found"#), "{told}");
            let waiting = above.until("web", "says why it waits", |pod| {
                pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ServiceAccountNotFound"
            });
            waiting.await?;
            ensure!(below.find("web").await?.is_none(), "it is there already");
            pair.upper.kubectl(&account("create")).await?;
            above.until_ready("web").await?;
            let claims = claims(&token(&secret_of(&pair.lower, below, "web").await?, "token-0")?)?;
            ensure!(claims["kubernetes.io"]["serviceaccount"]["name"] == "robot", "{claims}");
            Ok(())
        })
        .await
    })
}
