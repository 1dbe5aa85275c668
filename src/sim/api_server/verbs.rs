//! The verbs that change objects: create, update, patch, delete, and the token of a service account.

use std::time::Duration;

use serde_json::{Value, json};

use super::refusal::Refused;
use super::resources::Target;
use super::store::{Key, Selection};
use super::{ApiServer, Request, Who, patch, pods, webhooks};
use crate::actors::kit::trace::lock;

/// How often a patch is tried while others write the same object; then it is the client's turn.
pub const PATCH_CONFLICT: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

impl ApiServer {
    pub(super) fn create(&self, who: &Who, request: &Request, target: &Target) -> Result<Value, Refused> {
        if target.subresource.as_deref() == Some("token") {
            return self.token(request, target);
        }
        let mut object = request.body.clone();
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if name.is_empty() || target.name.is_some() {
            let text = format!("{} is invalid: metadata.name: Required value", target.resource.full_name());
            return Err(Refused::new(422, "Invalid", text));
        }
        if object["metadata"]["resourceVersion"].as_str().is_some_and(|version| !version.is_empty()) {
            let text = "resourceVersion should not be set on objects to be created";
            return Err(Refused::new(500, "InternalError", text));
        }
        let key = Key::new(target.resource, target.namespace.as_deref(), &name);
        if lock(&self.store).get(&key).is_some() {
            return Err(Refused::already_exists(target.resource, &name));
        }
        if let Who::Node(_) = who {
            self.admit(who, &object, target)?;
        }
        self.begin(&mut object, target);
        if target.resource.plural == "pods" {
            pods::begin(&mut object);
        }
        self.admit_mutating(who, &mut object, target.resource.plural, true);
        Ok((*self.write(who, request, &key, Some(object))).clone())
    }

    /// The server's own fields of a new object.
    fn begin(&self, object: &mut Value, target: &Target) {
        object["apiVersion"] = target.resource.api_version().into();
        object["kind"] = target.resource.kind.into();
        if let Some(namespace) = &target.namespace {
            object["metadata"]["namespace"] = namespace.clone().into();
        }
        let number = {
            let mut made = lock(&self.made);
            *made += 1;
            *made
        };
        object["metadata"]["uid"] = format!("{number:08x}-0000-4000-8000-{number:012x}").into();
        object["metadata"]["creationTimestamp"] = self.timestamp(Duration::ZERO).into();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
    }

    fn timestamp(&self, later: Duration) -> String {
        self.now().plus(later).to_timestamp().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// The objects that nodes may make beyond what the authorizer sees: mirrors of their own, as the admission of nodes
    /// has it.
    fn admit(&self, who: &Who, object: &Value, target: &Target) -> Result<(), Refused> {
        let Who::Node(node) = who else { return Ok(()) };
        if target.resource.plural != "pods" {
            return Ok(());
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let refuse = |why: String| Err(Refused::new(403, "Forbidden", format!("pods {name:?} is forbidden: {why}")));
        if object["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null() {
            return refuse(format!(
                "pod does not have \"kubernetes.io/config.mirror\" annotation, node {node:?} can only create mirror pods"
            ));
        }
        if object["spec"]["nodeName"] != **node {
            return refuse(format!("node {node:?} can only create pods with spec.nodeName set to itself"));
        }
        let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        let uid = self.get("nodes", "", node).map(|node| node["metadata"]["uid"].clone());
        let [owner] = owners.as_slice() else {
            return refuse(format!("node {node:?} can only create pods with a single owner reference set to itself"));
        };
        if owner["kind"] != "Node" || owner["name"] != **node || owner["controller"] != true {
            return refuse(format!("node {node:?} can only create pods with an owner reference set to itself"));
        }
        if uid.as_ref() != Some(&owner["uid"]) {
            return refuse(format!("node {node:?} UID mismatch: expected {uid:?} got {}", owner["uid"]));
        }
        Ok(())
    }

    /// Webhooks have their say about what nodes write.
    fn admit_mutating(&self, who: &Who, object: &mut Value, plural: &str, is_new: bool) {
        if self.mood().mutates && matches!(who, Who::Node(_)) {
            webhooks::mutate(object, plural, is_new, self.version());
        }
    }

    pub(super) fn change(&self, who: &Who, request: &Request, target: &Target) -> Result<Value, Refused> {
        let (key, name) = self.one(target)?;
        let found = lock(&self.store).get(&key);
        if request.method == "PUT" && found.is_none() && target.resource.plural == "leases" {
            let made = Request { method: "POST".to_owned(), ..request.clone() };
            return self.create(who, &made, &Target { name: None, ..target.clone() });
        }
        let before = found.ok_or_else(|| Refused::not_found(target.resource, &name))?;
        if request.method == "DELETE" {
            return self.delete(who, request, target, &key, &before);
        }
        let mut after = if request.method == "PUT" { request.body.clone() } else { (*before).clone() };
        if request.method == "PATCH" {
            let wrong = |wrong: patch::Wrong| Refused::new(422, "Invalid", wrong.to_string());
            patch::apply(&mut after, &request.content_type, &request.body).map_err(wrong)?;
        }
        let of = |object: &Value, field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (asked, is) = (of(&after, "uid"), of(&before, "uid"));
        if !asked.is_empty() && asked != is {
            let why = format!("Precondition failed: UID in precondition: {asked}, UID in object meta: {is}");
            return Err(Refused::conflict(target.resource, &name, &why));
        }
        let (asked, is) = (of(&after, "resourceVersion"), of(&before, "resourceVersion"));
        if !asked.is_empty() && asked != is {
            return Err(Refused::conflict(target.resource, &name, PATCH_CONFLICT));
        }
        for field in ["uid", "creationTimestamp", "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"]
        {
            match before["metadata"].get(field) {
                Some(value) => after["metadata"][field] = value.clone(),
                None => drop(after["metadata"].as_object_mut().map(|metadata| metadata.remove(field))),
            }
        }
        let mut after = match target.subresource.as_deref() {
            Some("status") if target.resource.plural == "pods" => {
                pods::with_new_status(&before, status_of(&before, &after))
            }
            Some("status") => status_of(&before, &after),
            None => pods::edited(&before, after, target.resource),
            Some(other) => return Err(Refused::new(404, "NotFound", format!("no subresource {other}"))),
        };
        if target.resource.plural == "pods" {
            pods::check(&before, &after)?;
        }
        self.admit_mutating(who, &mut after, target.resource.plural, false);
        Ok((*self.write(who, request, &key, Some(after))).clone())
    }

    fn delete(
        &self,
        who: &Who,
        request: &Request,
        target: &Target,
        key: &Key,
        before: &Value,
    ) -> Result<Value, Refused> {
        if let Some(asked) = request.body["preconditions"]["uid"].as_str()
            && before["metadata"]["uid"] != asked
        {
            let is = before["metadata"]["uid"].as_str().unwrap_or_default();
            let why = format!("Precondition failed: UID in precondition: {asked}, UID in object meta: {is}");
            return Err(Refused::conflict(target.resource, &key.name, &why));
        }
        let grace = if target.resource.plural == "pods" {
            pods::grace(before, request.body["gracePeriodSeconds"].as_i64())
        } else {
            0
        };
        if grace == 0 {
            return Ok((*self.write(who, request, key, None)).clone());
        }
        if before["metadata"]["deletionGracePeriodSeconds"].as_i64().is_some_and(|known| known <= grace) {
            return Ok(before.clone());
        }
        let mut after = before.clone();
        let seconds = u64::try_from(grace).unwrap_or_default();
        after["metadata"]["deletionTimestamp"] = self.timestamp(Duration::from_secs(seconds)).into();
        after["metadata"]["deletionGracePeriodSeconds"] = grace.into();
        after["metadata"]["generation"] = (before["metadata"]["generation"].as_i64().unwrap_or_default() + 1).into();
        Ok((*self.write(who, request, key, Some(after))).clone())
    }

    /// Deletes all objects of a selection, each at once.
    pub(super) fn delete_all(&self, who: &Who, request: &Request, selection: &Selection) -> Value {
        let keys = lock(&self.store).keys(selection);
        for key in keys {
            self.write(who, request, &key, None);
        }
        json!({ "apiVersion": "v1", "kind": "Status", "status": "Success" })
    }

    /// A token, bound to a pod that is there.
    fn token(&self, request: &Request, target: &Target) -> Result<Value, Refused> {
        let (namespace, account) =
            (target.namespace.clone().unwrap_or_default(), target.name.clone().unwrap_or_default());
        if self.get("serviceaccounts", &namespace, &account).is_none() {
            return Err(Refused::not_found(target.resource, &account));
        }
        let bound = &request.body["spec"]["boundObjectRef"];
        let (name, uid) = (bound["name"].as_str().unwrap_or_default(), &bound["uid"]);
        let pods = super::resources::resource("pods").expect("there are pods");
        let pod = self.get("pods", &namespace, name).ok_or_else(|| Refused::not_found(pods, name))?;
        if pod["metadata"]["uid"] != *uid {
            let text = format!("the UID in the bound object reference ({uid}) does not match the UID in record");
            return Err(Refused::conflict(pods, name, &text));
        }
        let seconds = request.body["spec"]["expirationSeconds"].as_u64().unwrap_or(3600).max(600);
        let mut answer = request.body.clone();
        answer["spec"]["expirationSeconds"] = seconds.into();
        answer["status"] = json!({
            "token": format!("token-of-{account}-for-{name}-at-{}", self.version()),
            "expirationTimestamp": self.timestamp(Duration::from_secs(seconds)),
        });
        Ok(answer)
    }
}

/// A change of the status changes nothing else but labels and annotations.
fn status_of(before: &Value, after: &Value) -> Value {
    let mut object = before.clone();
    object["status"] = after["status"].clone();
    for field in ["labels", "annotations"] {
        if let Some(value) = after["metadata"].get(field) {
            object["metadata"][field] = value.clone();
        }
    }
    object
}
