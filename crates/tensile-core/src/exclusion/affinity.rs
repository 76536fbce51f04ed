//! "Not these nodes", as a requirement of a pod.

use serde_json::{Map, Value, json};

use crate::placement::Malformed;
use crate::placement::raw::{self, Path};
use crate::placement::selector::METADATA_NAME;

const NODE_AFFINITY: &str = "nodeAffinity";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const TERMS: &str = "nodeSelectorTerms";
const MATCH_FIELDS: &str = "matchFields";

/// Keeps a pod with this `affinity` off the virtual nodes `nodes`, and changes nothing else about where it may go.
///
/// Nodes are named by the field `metadata.name`, in every term, or in a term of its own where nothing was required. The
/// label `kubernetes.io/hostname` would do less: other nodes may share its value, it may differ from the name, and it
/// is a label that is decided below, so that a second review would move it into the stash. A field names upper nodes
/// and stays with the upper pod.
pub fn exclude<'a>(affinity: &mut Option<Value>, nodes: impl IntoIterator<Item = &'a str>) -> Result<(), Malformed> {
    let absent = nodes.into_iter().map(|node| json!({"key": METADATA_NAME, "operator": "NotIn", "values": [node]}));
    let absent: Vec<Value> = absent.collect();
    if absent.is_empty() {
        return Ok(());
    }
    let at = Path::Root("spec.affinity");
    let mut whole = match affinity.take().filter(|affinity| !affinity.is_null()) {
        None => Map::new(),
        Some(affinity) => raw::into_object(affinity, at)?,
    };
    let mut node_affinity = raw::take_object(&mut whole, NODE_AFFINITY, at)?.unwrap_or_default();
    let at = at.member(NODE_AFFINITY);
    let required = match raw::take_object(&mut node_affinity, REQUIRED, at)? {
        None => [(TERMS.to_owned(), json!([{MATCH_FIELDS: absent}]))].into_iter().collect(),
        Some(mut required) => {
            let at = at.member(REQUIRED);
            let mut terms = raw::take_list(&mut required, TERMS, at)?;
            let at = at.member(TERMS);
            for (index, term) in terms.iter_mut().enumerate() {
                add(term, &absent, at.item(index))?;
            }
            required.insert(TERMS.to_owned(), terms.into());
            required
        }
    };
    node_affinity.insert(REQUIRED.to_owned(), Value::Object(required));
    whole.insert(NODE_AFFINITY.to_owned(), Value::Object(node_affinity));
    *affinity = Some(Value::Object(whole));
    Ok(())
}

/// Adds requirements to a term. One without any matches nothing and is left so: with the first, it would match.
fn add(term: &mut Value, absent: &[Value], at: Path<'_>) -> Result<(), Malformed> {
    let Value::Object(members) = term else {
        return Err(at.must_be("an object"));
    };
    let is_given = |name| Ok::<_, Malformed>(!raw::list(members, name, at)?.is_empty());
    if is_given("matchExpressions")? || is_given(MATCH_FIELDS)? {
        let mut fields = raw::take_list(members, MATCH_FIELDS, at)?;
        raw::extend_new(&mut fields, absent.iter().cloned());
        members.insert(MATCH_FIELDS.to_owned(), fields.into());
    }
    Ok(())
}
