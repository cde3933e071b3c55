//! How many pods of a PodDisruptionBudget may go.

use std::collections::BTreeSet;
use std::sync::Arc;

use reconcile::Object;

use crate::labels::Selector;
use crate::pod::PodInfo;

#[derive(Clone, Debug)]
pub struct Budget {
    pub namespace: Arc<str>,
    pub selector: Selector,
    pub allowed: i64,
    /// Pods that were counted already although they are still there.
    pub going: BTreeSet<String>,
}

impl Budget {
    pub fn read(object: &Object) -> Budget {
        let status = &object.value["status"];
        let going = status["disruptedPods"].as_object().into_iter().flatten();
        Budget {
            namespace: object.name.namespace.clone(),
            selector: Selector::read(&object.value["spec"]["selector"]),
            allowed: status["disruptionsAllowed"].as_i64().unwrap_or(0),
            going: going.map(|(name, _)| name.clone()).collect(),
        }
    }

    pub fn covers(&self, pod: &PodInfo) -> bool {
        let name = pod.name();
        self.namespace == name.namespace
            && !self.going.contains(&*name.name)
            && !pod.labels.is_empty()
            && self.selector.matches(&pod.labels)
    }
}

/// Which pods could not go without breaking a budget, if all went in this order.
pub fn violating<'a>(
    pods: &[Arc<PodInfo>],
    budgets: impl Iterator<Item = &'a Budget>,
) -> Vec<bool> {
    let mut left: Vec<(&Budget, i64)> = budgets.map(|one| (one, one.allowed)).collect();
    let mut violating = Vec::new();
    for pod in pods {
        let mut is_violating = false;
        for (budget, left) in &mut left {
            if budget.covers(pod) {
                *left -= 1;
                is_violating |= *left < 0;
            }
        }
        violating.push(is_violating);
    }
    violating
}
