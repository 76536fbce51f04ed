// SPDX-License-Identifier: Apache-2.0
//! What the flags of the object controllers mean.

use std::collections::BTreeMap;

use super::{SettingsError, invalid, is_subdomain};

const PV_CONTROLLERS: &str = "PVControllers";
const SERVICE_CONTROLLERS: &str = "ServiceControllers";

/// Whether volumes and services are kept in step.
pub(super) fn controllers(given: Option<&[String]>) -> Result<(bool, bool), SettingsError> {
    let Some(given) = given else { return Ok((true, true)) };
    let known = [PV_CONTROLLERS, SERVICE_CONTROLLERS];
    if let Some(other) = given.iter().find(|name| !name.is_empty() && !known.contains(&name.as_str())) {
        return Err(invalid("--enable-controllers", other, format!("is not one of {}", known.join(", "))));
    }
    let has = |name: &str| given.iter().any(|given| given == name);
    Ok((has(PV_CONTROLLERS), has(SERVICE_CONTROLLERS)))
}

/// `UPPER=LOWER,...`, or one name that is the same in both clusters.
pub(super) fn classes(text: &str) -> Result<BTreeMap<String, String>, SettingsError> {
    text.split(',')
        .map(str::trim)
        .filter(|class| !class.is_empty())
        .map(|class| match class.split_once('=').unwrap_or((class, class)) {
            (upper, lower) if is_subdomain(upper) && is_subdomain(lower) => Ok((upper.to_owned(), lower.to_owned())),
            _ => Err(invalid("--storage-classes", class, "is not a StorageClass or UPPER=LOWER".to_owned())),
        })
        .collect()
}
