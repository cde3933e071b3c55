//! Which group a pod belongs to, and what a group asks for.

use std::sync::Arc;
use std::time::Duration;

use reconcile::{Kind, Name, Object};

use crate::kinds::{GROUP, VOLCANO_GROUP};
use crate::pod::requests::{self, Amounts};

pub const LABEL: &str = "scheduling.x-k8s.io/pod-group";
pub const VOLCANO_ANNOTATION: &str = "scheduling.k8s.io/group-name";
/// How long a gang holds room that it does not use yet, if it does not say.
const TIMEOUT_SECONDS: u64 = 60;

/// Whose group it is: the two kinds have the same meaning and different words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    Coscheduling,
    Volcano,
}

impl Family {
    pub fn kind(self) -> Kind {
        match self {
            Family::Coscheduling => GROUP,
            Family::Volcano => VOLCANO_GROUP,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey {
    pub family: Family,
    pub name: Name,
}

/// What a PodGroup asks for.
#[derive(Clone, Debug)]
pub struct Group {
    pub object: Arc<Object>,
    pub members_min: usize,
    pub resources_min: Amounts,
    pub timeout: Duration,
}

/// The group that a pod names.
pub fn of_pod(pod: &Object) -> Option<GroupKey> {
    let named = |family, name: &str| {
        let name = Name::new(pod.name.namespace.clone(), name);
        (!name.name.is_empty()).then_some(GroupKey { family, name })
    };
    let own = pod.label(LABEL).and_then(|name| named(Family::Coscheduling, name));
    own.or_else(|| named(Family::Volcano, pod.annotation(VOLCANO_ANNOTATION)?))
}

impl Group {
    pub fn read(object: Arc<Object>) -> Group {
        let spec = &object.value["spec"];
        let members_min = spec["minMember"].as_u64().unwrap_or(0);
        let seconds = spec["scheduleTimeoutSeconds"].as_u64().unwrap_or(TIMEOUT_SECONDS);
        Group {
            members_min: usize::try_from(members_min).unwrap_or(usize::MAX),
            resources_min: requests::read(&spec["minResources"]),
            timeout: Duration::from_secs(seconds),
            object,
        }
    }
}
