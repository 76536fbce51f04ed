// SPDX-License-Identifier: Apache-2.0
//! What `PodRequests` of `k8s.io/component-helpers` 0.36.3 gives for the same pods, before and after placement.

use serde_json::json;

use super::*;

type Amounts<'a> = &'a [(&'a str, i128)];

/// Checks both views of a pod: before it is placed, and placed.
fn check(pod: &Value, incoming: Amounts<'_>, placed: Amounts<'_>) {
    let amounts = |vector: ResourceVector| vector.iter().map(|(n, m)| (n.as_str().to_owned(), m)).collect::<Vec<_>>();
    let expected = |amounts: Amounts<'_>| amounts.iter().map(|(n, m)| ((*n).to_owned(), *m)).collect::<Vec<_>>();
    let text = pod.to_string();
    let view = PodRequestView::parse(&text).unwrap();
    assert_eq!(amounts(view.incoming()), expected(incoming), "incoming");
    assert_eq!(amounts(view.placed()), expected(placed), "placed");
    assert_eq!(amounts(pod_request(&pod["spec"]).unwrap()), expected(incoming), "from a value");
}

#[test]
fn requests_of_containers_add_up() {
    check(
        &json!({"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"100m","memory":"1Gi"}}},{"name":"b","resources":{"requests":{"cpu":"0.2","example.com/gpu":"1"},"limits":{"memory":"1Gi"}}},{"name":"c"}]}}),
        &[("cpu", 300), ("example.com/gpu", 1_000), ("memory", 1_073_741_824_000)],
        &[("cpu", 300), ("example.com/gpu", 1_000), ("memory", 1_073_741_824_000)],
    );
}

#[test]
fn the_largest_init_container_counts_when_it_is_larger() {
    check(
        &json!({"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"100m","memory":"100Mi"}}}],"initContainers":[{"name":"i","resources":{"requests":{"cpu":"2","memory":"10Mi"}}},{"name":"j","resources":{"requests":{"cpu":"1"}}}]}}),
        &[("cpu", 2_000), ("memory", 104_857_600_000)],
        &[("cpu", 2_000), ("memory", 104_857_600_000)],
    );
}

#[test]
fn sidecars_run_beside_later_init_containers_and_beside_the_containers() {
    check(
        &json!({"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"100m"}}}],"initContainers":[{"name":"i","resources":{"requests":{"cpu":"300m"}}},{"name":"s","restartPolicy":"Always","resources":{"requests":{"cpu":"200m"}}},{"name":"j","resources":{"requests":{"cpu":"250m"}}},{"name":"t","restartPolicy":"Always","resources":{"requests":{"cpu":"40m"}}}]}}),
        &[("cpu", 450)],
        &[("cpu", 450)],
    );
}

#[test]
fn overhead_comes_on_top() {
    check(
        &json!({"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"100m"}}}],"initContainers":[{"name":"s","restartPolicy":"Always","resources":{"requests":{"cpu":"200m"}}},{"name":"t","restartPolicy":"Always","resources":{"requests":{"cpu":"40m"}}}],"overhead":{"cpu":"5m","memory":"1Mi"}}}),
        &[("cpu", 345), ("memory", 1_048_576_000)],
        &[("cpu", 345), ("memory", 1_048_576_000)],
    );
}

#[test]
fn pod_level_requests_replace_cpu_memory_and_hugepages_only() {
    check(
        &json!({"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"100m","ephemeral-storage":"1G","hugepages-2Mi":"4Mi"}}}],"resources":{"requests":{"cpu":"3","ephemeral-storage":"9G","hugepages-2Mi":"8Mi","example.com/gpu":"2"}},"overhead":{"cpu":"10m"}}}),
        &[("cpu", 3_010), ("ephemeral-storage", 1_000_000_000_000), ("hugepages-2Mi", 8_388_608_000)],
        &[("cpu", 3_010), ("ephemeral-storage", 1_000_000_000_000), ("hugepages-2Mi", 8_388_608_000)],
    );
}

#[test]
fn pod_level_requests_replace_even_when_lower() {
    check(
        &json!({"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"100m"}}}],"resources":{"requests":{"cpu":"50m"}}}}),
        &[("cpu", 50)],
        &[("cpu", 50)],
    );
}

#[test]
fn a_resize_under_way_counts_at_its_larger_end() {
    check(
        &json!({"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"100m","memory":"2Gi"}}}]},"status":{"containerStatuses":[{"name":"a","resources":{"requests":{"cpu":"300m"}},"allocatedResources":{"cpu":"200m","memory":"3Gi"}}]}}),
        &[("cpu", 100), ("memory", 2_147_483_648_000)],
        &[("cpu", 300), ("memory", 3_221_225_472_000)],
    );
}

#[test]
fn an_infeasible_resize_is_not_counted() {
    check(
        &json!({"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"900m"}}}]},"status":{"conditions":[{"type":"PodResizePending","status":"True","reason":"Infeasible"}],"containerStatuses":[{"name":"a","resources":{"requests":{"cpu":"300m"}},"allocatedResources":{"cpu":"200m"}}]}}),
        &[("cpu", 900)],
        &[("cpu", 300)],
    );
}

#[test]
fn a_deferred_resize_is_counted() {
    check(
        &json!({"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"900m"}}}]},"status":{"conditions":[{"type":"PodResizePending","status":"True","reason":"Deferred"}],"containerStatuses":[{"name":"a","resources":{"requests":{"cpu":"300m"}},"allocatedResources":{"cpu":"200m"}}]}}),
        &[("cpu", 900)],
        &[("cpu", 900)],
    );
}

#[test]
fn allocated_resources_without_actual_ones_are_ignored() {
    check(
        &json!({"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"100m"}}}]},"status":{"containerStatuses":[{"name":"a","allocatedResources":{"cpu":"200m"}}]}}),
        &[("cpu", 100)],
        &[("cpu", 100)],
    );
}

#[test]
fn a_sidecar_is_counted_by_its_status_and_an_ordinary_init_container_is_not() {
    check(
        &json!({"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"100m"}}}],"initContainers":[{"name":"s","restartPolicy":"Always","resources":{"requests":{"cpu":"200m"}}},{"name":"i","resources":{"requests":{"cpu":"10m"}}}]},"status":{"initContainerStatuses":[{"name":"s","resources":{"requests":{"cpu":"500m"}}},{"name":"i","resources":{"requests":{"cpu":"5"}}}]}}),
        &[("cpu", 300)],
        &[("cpu", 600)],
    );
}

#[test]
fn pod_level_status_is_counted_once_the_pod_is_placed() {
    check(
        &json!({"spec":{"containers":[{"name":"a"}],"resources":{"requests":{"cpu":"1","memory":"1Gi"}}},"status":{"resources":{"requests":{"cpu":"2"}},"allocatedResources":{"memory":"2Gi"}}}),
        &[("cpu", 1_000), ("memory", 1_073_741_824_000)],
        &[("cpu", 2_000), ("memory", 2_147_483_648_000)],
    );
}

#[test]
fn resources_of_claims_are_counted_once_the_pod_is_placed() {
    check(
        &json!({"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]},"status":{"nodeAllocatableResourceClaimStatuses":[{"resourceClaimName":"c","resources":{"cpu":"2","memory":"1Ki"}}]}}),
        &[("cpu", 1_000)],
        &[("cpu", 3_000), ("memory", 1_024_000)],
    );
}

#[test]
fn a_request_of_zero_is_known_as_zero() {
    check(
        &json!({"spec":{"containers":[{"name":"a","resources":{"requests":{"memory":"0"}}}]}}),
        &[("memory", 0)],
        &[("memory", 0)],
    );
}

#[test]
fn extended_resources_at_pod_level_are_ignored() {
    check(
        &json!({"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}],"resources":{"requests":{"example.com/gpu":"2"}}}}),
        &[("cpu", 1_000)],
        &[("cpu", 1_000)],
    );
}

#[test]
fn pod_level_limits_alone_change_nothing() {
    check(
        &json!({"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}],"resources":{"limits":{"cpu":"2"}}}}),
        &[("cpu", 1_000)],
        &[("cpu", 1_000)],
    );
}

#[test]
fn an_infeasible_pod_level_resize_is_not_counted() {
    check(
        &json!({"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"900m"}}}],"resources":{"requests":{"cpu":"900m"}}},"status":{"conditions":[{"type":"PodResizePending","status":"True","reason":"Infeasible"}],"resources":{"requests":{"cpu":"300m"}}}}),
        &[("cpu", 900)],
        &[("cpu", 300)],
    );
}

#[test]
fn a_pod_takes_from_its_node_while_it_is_bound_and_not_finished() {
    for (pod, node) in [
        (json!({"spec": {}}), None),
        (json!({"spec": {"nodeName": ""}}), None),
        (json!({"spec": {"nodeName": "n"}}), Some("n")),
        (json!({"spec": {"nodeName": "n"}, "status": {"phase": "Pending"}}), Some("n")),
        (json!({"spec": {"nodeName": "n"}, "status": {"phase": "Running"}}), Some("n")),
        (json!({"spec": {"nodeName": "n"}, "status": {"phase": "Succeeded"}}), None),
        (json!({"spec": {"nodeName": "n"}, "status": {"phase": "Failed"}}), None),
    ] {
        let text = pod.to_string();
        assert_eq!(PodRequestView::parse(&text).unwrap().node(), node, "{pod}");
    }
}

#[test]
fn what_go_clients_send_for_nothing_is_nothing() {
    check(
        &json!({"spec": {"containers": null, "initContainers": null, "overhead": null, "resources": null},
            "status": {"containerStatuses": null, "resources": null, "allocatedResources": null}}),
        &[],
        &[],
    );
    check(&json!({"spec": {"containers": [{"name": "a", "resources": {"requests": null}}]}}), &[], &[]);
}

#[test]
fn escaped_text_is_read_too() {
    // Borrowing from the text must not depend on there being nothing to unescape.
    let view =
        r#"{"spec":{"nodeName":"n\u0031","containers":[{"name":"\u0061","resources":{"requests":{"c\u0070u":"1"}}}]}}"#;
    let view = PodRequestView::parse(view).unwrap();
    assert_eq!((view.node(), view.incoming().get(&ResourceName::CPU)), (Some("n1"), Some(1000)));
}

#[test]
fn a_quantity_that_is_none_is_an_error() {
    assert!(pod_request(&json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": "much"}}}]})).is_err());
    assert!(pod_request(&json!("a spec")).is_err());
}
