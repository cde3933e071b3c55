//! The pods and the Endpoints of a service.

use std::sync::Arc;

use reconcile::{Context, Object};

use crate::kinds::ENDPOINTS;
use crate::service_pods;

#[derive(Default)]
pub struct Observed {
    /// The pods that the service selects.
    pub pods: Vec<Arc<Object>>,
    pub endpoints: Option<Arc<Object>>,
}

pub fn observe(context: &Context, service: &Object) -> Observed {
    Observed {
        pods: service_pods::selected(context, service),
        endpoints: context.cache(ENDPOINTS).get(&service.name),
    }
}
