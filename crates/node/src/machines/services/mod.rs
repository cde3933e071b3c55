//! Services that lead to the machines of this node. A machine has no pod: which of its ports are
//! asked for is seen here, they are opened at the address that the node has among its pods, and an
//! EndpointSlice of our own says where.
//!
//! ```text
//! slices.rs   which services lead to which ports, and what is said of it (pure)
//! ```
//!
//! Nothing is remembered between two looks: what is open is asked of the machine, what is said of
//! the server. Whoever is told of a port is told before it is closed that it is gone, so that
//! nobody is led to another who has it next.

mod slices;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use hypervisor::{Error, Opened, Port};
use reconcile::plan::{Notice, Target};
use reconcile::{Name, Object, Wake};
use serde_json::Value;

use self::slices::{Asked, Place};
use super::failure::Failure;
use super::kinds::INSTANCE;
use super::looks::Looks;
use super::volumes::text;
use super::{Gateway, Shared};
use crate::agent::SERVICE;
use crate::network::services::ENDPOINT_SLICE;

/// How long a look waits until what it wrote is seen; it may be that nobody sees anything.
const CATCH_UP_MAX: Duration = Duration::from_secs(30);

/// Has machines looked at when services that may lead to them change, and what is said of them.
pub fn listen(shared: &Arc<Shared>, looks: &Arc<Looks>) {
    let (told, instances) = (looks.clone(), shared.context.cache(INSTANCE));
    shared.context.cache(SERVICE).subscribe(move |change| {
        let services = [&change.old, &change.new].into_iter().flatten();
        let services: Vec<_> = services.collect();
        for instance in instances.in_namespace(&change.object().name.namespace) {
            if services.iter().any(|service| slices::is_selected(service, &instance)) {
                told.add(instance.name.clone());
            }
        }
    });
    let slices = shared.context.cache(ENDPOINT_SLICE);
    let told = looks.clone();
    slices.subscribe(move |change| {
        if let Some(machine) = slices::machine_of(change.object()) {
            told.add(machine);
        }
    });
    for slice in slices.all() {
        slices::machine_of(&slice).into_iter().for_each(|machine| looks.add(machine));
    }
}

/// Looks at all machines when it is known where they can be reached. Ends then.
pub async fn when_connected(shared: &Arc<Shared>, looks: &Arc<Looks>) {
    let mut gateway = shared.options.gateway.clone();
    let known = gateway.wait_for(|gateway| *gateway != Gateway::Unknown).await;
    // Whoever would say so is gone: it stays as it is.
    if known.is_err() {
        return;
    }
    for instance in shared.context.cache(INSTANCE).all() {
        looks.add(instance.name.clone());
    }
}

pub async fn look(shared: Arc<Shared>, name: Name) -> Result<Wake, Failure> {
    let gateway = *shared.options.gateway.borrow();
    if gateway == Gateway::Unknown {
        return Ok(Wake::OnChange);
    }
    let node = &shared.options.node;
    let instance = shared.context.cache(INSTANCE).get(&name);
    let instance = instance.filter(|instance| slices::is_listed(instance, node));
    let Some(instance) = instance else {
        settle(&shared, &name, &[]).await?;
        return Ok(Wake::OnChange);
    };
    let asked = asked(&shared, &instance);
    let ports = asked.iter().flat_map(|(_, asked)| &asked.served).map(|served| served.port);
    let ports: BTreeSet<Port> = ports.collect();
    let opened = match open(&shared, &instance, gateway, &ports).await {
        Ok(opened) => opened,
        // Its instance is about to say so.
        Err(Error::NotRunning { .. }) => Opened::default(),
        Err(error) => return Err(error.chain().into()),
    };
    tell_unserved(&shared, &asked, &opened).await;
    let address = gateway.address().unwrap_or(Ipv4Addr::UNSPECIFIED);
    let place = Place { node, address, open: &opened.at };
    let wanted = asked
        .iter()
        .filter_map(|(service, asked)| slices::slice(service, &instance, &asked.served, place));
    settle(&shared, &name, &wanted.collect::<Vec<_>>()).await?;
    let closed = shared.options.hypervisor.close_other_ports(&instance.uid, address, &ports).await;
    match closed {
        Ok(()) | Err(Error::NotRunning { .. }) => Ok(Wake::OnChange),
        Err(error) => Err(error.chain().into()),
    }
}

/// The services that lead to a machine, and what each asks of it.
fn asked(shared: &Shared, instance: &Object) -> Vec<(Arc<Object>, Asked)> {
    let services = shared.context.cache(SERVICE).in_namespace(&instance.name.namespace);
    let services = services.into_iter().filter(|one| slices::is_selected(one, instance));
    services.map(|service| (service.clone(), slices::asked(&service, instance))).collect()
}

async fn open(
    shared: &Shared,
    instance: &Object,
    gateway: Gateway,
    ports: &BTreeSet<Port>,
) -> Result<Opened, Error> {
    let refuse = |why: &str| {
        let refused = ports.iter().map(|port| (*port, why.to_owned())).collect();
        Ok(Opened { refused, ..Opened::default() })
    };
    let Some(address) = gateway.address() else {
        return refuse("this node has no network of pods");
    };
    match shared.options.hypervisor.open_ports(&instance.uid, address, ports).await {
        Err(Error::Invalid(why)) => refuse(&why),
        opened => opened,
    }
}

/// Says of each service which of its ports lead nowhere.
async fn tell_unserved(shared: &Shared, asked: &[(Arc<Object>, Asked)], opened: &Opened) {
    let (requests, now) = (shared.requests(), shared.context.environment.now());
    for (service, asked) in asked {
        let refused = asked.served.iter().filter_map(|served| {
            let why = opened.refused.get(&served.port)?;
            Some(format!("port {} of the machine: {why}", served.port.number))
        });
        for why in asked.unserved.iter().cloned().chain(refused) {
            let notice = Notice::warning("PortNotPublished", why);
            shared.context.recorder.record(&requests, (SERVICE, service), &notice, now).await;
        }
    }
}

/// Writes a slice, unless the server has it: what is remembered may be old.
async fn write(shared: &Shared, machine: &Name, slice: &Value) -> Result<Option<Object>, Failure> {
    let requests = shared.requests();
    let name = Name::new(machine.namespace.clone(), text(&slice["metadata"]["name"]));
    let written = match shared.context.get_live(ENDPOINT_SLICE, &name).await? {
        None => requests.create(ENDPOINT_SLICE, slice).await?,
        Some(live) if !slices::is_it(&live, slice) => {
            return Err(format!("EndpointSlice {name} is of another").into());
        }
        Some(live) if slices::is_same(&live, slice) => return Ok(None),
        Some(live) => requests.replace(&Target::unchanged(ENDPOINT_SLICE, &live), slice).await?,
    };
    Ok(Some(written))
}

/// Has the slices of this node that lead to a machine be these.
async fn settle(shared: &Shared, machine: &Name, wanted: &[Value]) -> Result<(), Failure> {
    let cache = shared.context.cache(ENDPOINT_SLICE);
    let is_own = |slice: &Arc<Object>| {
        slices::machine_of(slice).as_ref() == Some(machine)
            && slices::is_of_node(slice, &shared.options.node)
    };
    let found = cache.in_namespace(&machine.namespace).into_iter().filter(is_own);
    let found: Vec<Arc<Object>> = found.collect();
    let requests = shared.requests();
    let mut seen = 0;
    for slice in &found {
        if wanted.iter().any(|one| slices::is_it(slice, one)) {
            continue;
        }
        let target = Target::of(ENDPOINT_SLICE, slice);
        match requests.delete(&target, &Default::default()).await {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
        let gone = cache.loses(&slice.name, &slice.uid);
        let _ = tokio::time::timeout(CATCH_UP_MAX, gone).await;
    }
    for slice in wanted {
        let known = found.iter().find(|one| slices::is_it(one, slice));
        if known.is_some_and(|known| slices::is_same(known, slice)) {
            continue;
        }
        if let Some(written) = write(shared, machine, slice).await? {
            seen = seen.max(written.revision);
        }
    }
    // The next look must not rest on less than what this one wrote.
    let _ = tokio::time::timeout(CATCH_UP_MAX, cache.reaches(seen)).await;
    Ok(())
}
