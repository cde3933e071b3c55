//! Makes an object what it is wanted to be: made, changed, left alone or deleted, with notes on
//! itself of what was last wanted, so that what others changed since is found and taken back.
//!
//! Only content and the two notes are written on an object that is there.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/internal/controller_common/resource.go

use reconcile::owners::controller_reference;
use reconcile::plan::{About, Notice, Repeat, Target};
use reconcile::{Kind, Name, Object, Plan, Step};
use serde_json::{Value, json};

use crate::digest::{canonical, content, is_envelope, sha256};
use crate::value::object_mut;

/// The digest of what was last wanted.
pub const HASH: &str = "nvidia.com/last-applied-hash";
/// The generation that it led to.
pub const GENERATION: &str = "nvidia.com/last-applied-generation";

/// What is to be done with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Nothing,
    Create,
    /// It is as it was wanted.
    Skip,
    /// It says what is wanted; the notes are wrong.
    Annotate,
    Update,
    Delete,
}

/// Decides; without anything wanted the object is to go.
pub fn decide(live: Option<&Object>, wanted: Option<&Value>) -> Decision {
    let (live, wanted) = match (live, wanted) {
        (None, None) => return Decision::Nothing,
        (None, Some(_)) => return Decision::Create,
        (Some(live), None) if live.is_terminating() => return Decision::Nothing,
        (Some(_), None) => return Decision::Delete,
        (Some(live), Some(wanted)) => (live, wanted),
    };
    if live.is_terminating() {
        return Decision::Skip;
    }
    let is_last_wanted = live.annotation(HASH) == Some(&hash(wanted));
    let noted: Option<i64> = live.annotation(GENERATION).and_then(|text| text.parse().ok());
    let is_untouched = noted.is_some_and(|noted| live.generation() <= noted);
    if is_last_wanted && is_untouched {
        return Decision::Skip;
    }
    match content(&live.value) == content(wanted) {
        true => Decision::Annotate,
        false => Decision::Update,
    }
}

/// The digest of what is wanted.
pub fn hash(wanted: &Value) -> String {
    sha256(&canonical(&content(wanted)))
}

/// Brings objects of one owner to what they are wanted to be.
pub struct Sync<'a> {
    pub plan: &'a mut Plan,
    /// Who controls what is made, if anybody does.
    pub owner: Option<(Kind, &'a Object)>,
    /// Whether anything has to be changed.
    pub is_modified: bool,
}

impl<'a> Sync<'a> {
    pub fn new(plan: &'a mut Plan, owner: Option<(Kind, &'a Object)>) -> Sync<'a> {
        Sync { plan, owner, is_modified: false }
    }

    /// The object is to be this.
    pub fn keep(&mut self, kind: Kind, live: Option<&Object>, wanted: Value) -> Decision {
        let decision = decide(live, Some(&wanted));
        match (decision, live) {
            (Decision::Create, _) => self.create(kind, wanted),
            (Decision::Skip, Some(live)) => self.say(kind, live, Said::Skipped),
            (Decision::Annotate, Some(live)) => {
                let generation = live.generation();
                self.replace(kind, live, with_notes(live.value.clone(), &wanted, generation));
            }
            (Decision::Update, Some(live)) => {
                let object = with_content(&live.value, &wanted);
                let generation = live.generation() + 1;
                self.replace(kind, live, with_notes(object, &wanted, generation));
            }
            _ => {}
        }
        decision
    }

    /// There is to be no such object.
    pub fn drop(&mut self, kind: Kind, live: Option<&Object>) -> Decision {
        // What belongs to another is not ours to delete.
        let live = live.filter(|live| {
            self.owner.is_none_or(|(_, owner)| live.controller() == Some(owner.uid.as_str()))
        });
        let decision = decide(live, None);
        if let (Decision::Delete, Some(live)) = (decision, live) {
            self.is_modified = true;
            self.plan.delete(Target::of(kind, live));
            self.say(kind, live, Said::Deleted);
        }
        decision
    }

    /// The object is to be this, or not to be.
    pub fn bring(&mut self, kind: Kind, live: Option<&Object>, wanted: Option<Value>) -> Decision {
        match wanted {
            Some(wanted) => self.keep(kind, live, wanted),
            None => self.drop(kind, live),
        }
    }

    fn create(&mut self, kind: Kind, wanted: Value) {
        self.is_modified = true;
        let mut object = with_notes(wanted.clone(), &wanted, 1);
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.kind);
        if let Some((owner_kind, owner)) = self.owner {
            object["metadata"]["ownerReferences"] =
                json!([controller_reference(owner_kind, owner)]);
        }
        let meta = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let name = Name::new(meta("namespace"), meta("name"));
        let (reason, namespace) = (reasons(kind).0, name.namespace.clone());
        for message in ["Creating a new", "Created"] {
            let message = format!("{message} {} {namespace}", kind.kind);
            let notice = Notice::normal(reason, message);
            let (name, uid, repeat) = (name.clone(), None, Repeat::Always);
            self.plan.about.push(About { kind, name, uid, notice, repeat });
        }
        self.plan.create(kind, object);
    }

    fn replace(&mut self, kind: Kind, live: &Object, object: Value) {
        self.is_modified = true;
        let target = Target::unchanged(kind, live);
        self.plan.steps.push(Step::Replace { target, object, change: None });
        self.say(kind, live, Said::Updated);
    }

    fn say(&mut self, kind: Kind, live: &Object, said: Said) {
        let (_, update, delete) = reasons(kind);
        let (reason, words, repeat) = match said {
            Said::Updated => (update, "Updated", Repeat::Always),
            // It is said of every look; once is enough for whoever wonders.
            Said::Skipped => (update, "Skipping update", Repeat::Never),
            Said::Deleted => (delete, "Deleted", Repeat::Always),
        };
        let notice =
            Notice::normal(reason, format!("{words} {} {}", kind.kind, live.name.namespace));
        let (name, uid) = (live.name.clone(), Some(live.uid.clone()));
        self.plan.about.push(About { kind, name, uid, notice, repeat });
    }
}

enum Said {
    Updated,
    Skipped,
    Deleted,
}

/// The object with the content of another.
fn with_content(live: &Value, wanted: &Value) -> Value {
    let mut object = live.clone();
    if wanted.get("spec").is_some() {
        object["spec"] = wanted["spec"].clone();
        return object;
    }
    let fields = object_mut(&mut object);
    fields.retain(|name, _| is_envelope(name));
    for (name, value) in wanted.as_object().into_iter().flatten() {
        if !is_envelope(name) {
            fields.insert(name.clone(), value.clone());
        }
    }
    object
}

fn with_notes(mut object: Value, wanted: &Value, generation: i64) -> Value {
    let annotations = object_mut(&mut object["metadata"]["annotations"]);
    annotations.insert(HASH.to_owned(), json!(hash(wanted)));
    annotations.insert(GENERATION.to_owned(), json!(generation.to_string()));
    object
}

/// What events say of making, changing and deleting a kind.
fn reasons(kind: Kind) -> (&'static str, &'static str, &'static str) {
    macro_rules! of {
        ($kind:literal) => {
            (concat!("Create", $kind), concat!("Update", $kind), concat!("Delete", $kind))
        };
    }
    match kind.kind {
        "ConfigMap" => of!("ConfigMap"),
        "Deployment" => of!("Deployment"),
        "DestinationRule" => of!("DestinationRule"),
        "DynamoComponentDeployment" => of!("DynamoComponentDeployment"),
        "DynamoGraphDeploymentScalingAdapter" => of!("DynamoGraphDeploymentScalingAdapter"),
        "InferencePool" => of!("InferencePool"),
        "Ingress" => of!("Ingress"),
        "Job" => of!("Job"),
        "LeaderWorkerSet" => of!("LeaderWorkerSet"),
        "PersistentVolumeClaim" => of!("PersistentVolumeClaim"),
        "ResourceClaimTemplate" => of!("ResourceClaimTemplate"),
        "Role" => of!("Role"),
        "RoleBinding" => of!("RoleBinding"),
        "Secret" => of!("Secret"),
        "Service" => of!("Service"),
        "ServiceAccount" => of!("ServiceAccount"),
        "VirtualService" => of!("VirtualService"),
        _ => of!("Unstructured"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{CONFIG_MAP, DEPLOYMENT};

    fn wanted(replicas: i64) -> Value {
        json!({"metadata": {"namespace": "ns", "name": "a"}, "spec": {"replicas": replicas}})
    }

    fn live(replicas: i64, generation: i64, notes: [Option<&str>; 2]) -> Object {
        let mut object = wanted(replicas);
        object["metadata"]["uid"] = json!("u");
        object["metadata"]["generation"] = json!(generation);
        for (name, note) in [HASH, GENERATION].into_iter().zip(notes) {
            if let Some(note) = note {
                object["metadata"]["annotations"][name] = json!(note);
            }
        }
        Object::new(object)
    }

    #[test]
    fn every_row_of_the_table_is_decided_so() {
        let right = hash(&wanted(2));
        let right = Some(right.as_str());
        let rows = [
            // The digest is missing or another's: only whether the content is the same counts.
            (2, 5, [None, None], Decision::Annotate),
            (3, 5, [None, Some("5")], Decision::Update),
            (2, 5, [Some("other"), Some("5")], Decision::Annotate),
            (3, 5, [Some("other"), Some("5")], Decision::Update),
            // The generation is missing or no number.
            (2, 5, [right, None], Decision::Annotate),
            (3, 5, [right, Some("x")], Decision::Update),
            // Somebody else changed it.
            (2, 6, [right, Some("5")], Decision::Annotate),
            (3, 6, [right, Some("5")], Decision::Update),
            // Nobody did, or the kind counts no generations.
            (3, 5, [right, Some("5")], Decision::Skip),
            (3, 4, [right, Some("5")], Decision::Skip),
            (3, 0, [right, Some("1")], Decision::Skip),
        ];
        for (replicas, generation, notes, decision) in rows {
            let live = live(replicas, generation, notes);
            let row = format!("{replicas} {generation} {notes:?}");
            assert_eq!(decide(Some(&live), Some(&wanted(2))), decision, "{row}");
        }
        let there = live(2, 1, [None, None]);
        assert_eq!(decide(None, None), Decision::Nothing);
        assert_eq!(decide(None, Some(&wanted(2))), Decision::Create);
        assert_eq!(decide(Some(&there), None), Decision::Delete);
    }

    #[test]
    fn what_is_made_is_owned_noted_and_told_of_twice() {
        let owner = Object::new(json!({"metadata": {"namespace": "ns", "name": "o", "uid": "o1"}}));
        let mut plan = Plan::nothing();
        let mut sync = Sync::new(&mut plan, Some((CONFIG_MAP, &owner)));
        sync.keep(DEPLOYMENT, None, wanted(2));
        assert!(sync.is_modified);
        let Step::Create { object, .. } = &plan.steps[0] else { panic!("{plan}") };
        let notes = &object["metadata"]["annotations"];
        assert_eq!(notes[HASH].as_str().map(str::len), Some(64));
        assert_eq!(notes[GENERATION], "1");
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "o1");
        let said: Vec<&str> = plan.about.iter().map(|one| one.notice.message.as_str()).collect();
        assert_eq!(said, ["Creating a new Deployment ns", "Created Deployment ns"]);
        assert!(plan.about.iter().all(|one| one.notice.reason == "CreateDeployment"));
    }

    #[test]
    fn what_others_changed_is_taken_back_and_the_rest_stays() {
        let mut there = live(3, 6, [None, Some("5")]);
        there.value["metadata"]["labels"] = json!({"kept": "yes"});
        let mut plan = Plan::nothing();
        Sync::new(&mut plan, None).keep(DEPLOYMENT, Some(&there), wanted(2));
        let Step::Replace { object, .. } = &plan.steps[0] else { panic!("{plan}") };
        assert_eq!(object["spec"], json!({"replicas": 2}));
        assert_eq!(object["metadata"]["labels"], json!({"kept": "yes"}));
        assert_eq!(object["metadata"]["annotations"][GENERATION], "7");
        // Kinds without a spec have their content at the top.
        let map = |data: &str| json!({"metadata": {"name": "m"}, "data": {"k": data}});
        let there = Object::new(map("old"));
        let mut plan = Plan::nothing();
        Sync::new(&mut plan, None).keep(CONFIG_MAP, Some(&there), map("new"));
        let Step::Replace { object, .. } = &plan.steps[0] else { panic!("{plan}") };
        assert_eq!(object["data"], json!({"k": "new"}));
    }

    #[test]
    fn a_look_that_changes_nothing_writes_nothing() {
        let right = hash(&wanted(2));
        let there = live(2, 1, [Some(&right), Some("1")]);
        let mut plan = Plan::nothing();
        let mut sync = Sync::new(&mut plan, None);
        assert_eq!(sync.keep(DEPLOYMENT, Some(&there), wanted(2)), Decision::Skip);
        assert!(!sync.is_modified);
        assert!(plan.steps.is_empty());
        assert_eq!(plan.about[0].notice.message, "Skipping update Deployment ns");
    }
}
