//! Decisions against a reference that knows nothing of columns: it reads the objects and tries
//! every node. Random clusters, random pods, nodes that come and go.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use reconcile::Object;
use serde_json::{Value, json};

use crate::fixtures::{Scene, pod};
use crate::gang::group::Group;
use crate::gang::{self, Gang};

const ZONE: &str = "zone";
const THERE: &str = "what was made must be there";

#[derive(Clone, Debug)]
enum Deed {
    Node { at: usize, cpu: i64, gpu: i64, zone: u8, is_tainted: bool },
    NodeGoes { at: usize },
    Pod(Wish),
    PodGoes { at: usize },
    Gang { size: usize, least: usize, wish: Wish },
}

#[derive(Clone, Debug)]
struct Wish {
    cpu: i64,
    gpu: i64,
    tolerates: bool,
    zone: Option<u8>,
    port: Option<u16>,
    is_alone: bool,
    is_spread: bool,
}

/// What the reference knows: the objects.
#[derive(Default)]
struct World {
    nodes: BTreeMap<String, Value>,
    /// Pods by name, with their nodes.
    pods: BTreeMap<String, (String, Value, Wish)>,
}

fn wish() -> impl Strategy<Value = Wish> {
    let odd = (prop::option::weighted(0.2, 0..3u8), prop::option::weighted(0.2, 1..3u16));
    (0..4i64, 0..3i64, any::<bool>(), odd, 0..8u8, 0..6u8).prop_map(
        |(cpu, gpu, tolerates, (zone, port), alone, spread)| Wish {
            cpu,
            gpu: (gpu - 1).max(0),
            tolerates,
            zone,
            port,
            is_alone: alone == 0,
            is_spread: spread == 0,
        },
    )
}

fn deed() -> impl Strategy<Value = Deed> {
    let node = (0..6usize, 1..9i64, 0..5i64, 0..3u8, 0..4u8);
    prop_oneof![
        3 => node.prop_map(|(at, cpu, gpu, zone, taint)| Deed::Node {
            at, cpu, gpu, zone, is_tainted: taint == 0,
        }),
        1 => (0..6usize).prop_map(|at| Deed::NodeGoes { at }),
        10 => wish().prop_map(Deed::Pod),
        3 => (0..20usize).prop_map(|at| Deed::PodGoes { at }),
        2 => (1..5usize, 1..5usize, wish())
            .prop_map(|(size, least, wish)| Deed::Gang { size, least, wish }),
    ]
}

impl Wish {
    fn spec(&self, name: &str) -> Value {
        let terms = json!([{"topologyKey": ZONE, "labelSelector":
            {"matchLabels": {"alone": "yes"}}}]);
        let mut beside = json!({
            "metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {
                "cpu": self.cpu.to_string(), "nvidia.com/gpu": self.gpu.to_string()}}}]},
        });
        let spec = &mut beside["spec"];
        if self.tolerates {
            spec["tolerations"] = json!([{"key": "t", "operator": "Exists"}]);
        }
        if let Some(zone) = self.zone {
            spec["nodeSelector"] = json!({ZONE: zone.to_string()});
        }
        if let Some(port) = self.port {
            spec["containers"][0]["ports"] = json!([{"hostPort": port}]);
        }
        if self.is_spread {
            spec["topologySpreadConstraints"] = json!([{"topologyKey": ZONE, "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "x"}}}]);
        }
        if self.is_alone {
            spec["affinity"] = json!({"podAntiAffinity":
                {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
            beside["metadata"]["labels"]["alone"] = json!("yes");
        }
        pod(name, beside)
    }
}

impl World {
    fn zone(&self, node: &str) -> &Value {
        &self.nodes[node]["metadata"]["labels"][ZONE]
    }

    fn on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Wish> + 'a {
        self.pods.values().filter(move |(at, ..)| at == node).map(|(_, _, wish)| wish)
    }

    fn fits(&self, node: &str, wish: &Wish) -> bool {
        let object = &self.nodes[node];
        let has = |name: &str| -> i64 {
            object["status"]["allocatable"][name].as_str().expect(THERE).parse().expect(THERE)
        };
        let cpu: i64 = self.on(node).map(|one| one.cpu).sum();
        let gpu: i64 = self.on(node).map(|one| one.gpu).sum();
        let is_tainted = object["spec"]["taints"].is_array();
        let in_zone = |zone: &Value| {
            let pods = self.pods.values();
            pods.filter(|(at, ..)| self.nodes.contains_key(at) && self.zone(at) == zone).count()
        };
        let skew = || {
            let counted = self.nodes.keys().filter(|name| {
                wish.zone.is_none_or(|zone| *self.zone(name) == json!(zone.to_string()))
            });
            let least = counted.map(|name| in_zone(self.zone(name))).min().unwrap_or(0);
            in_zone(self.zone(node)) + 1 - least
        };
        let is_near_lonely = self.pods.values().any(|(at, _, one)| {
            one.is_alone && self.nodes.contains_key(at) && self.zone(at) == self.zone(node)
        });
        (wish.cpu == 0 || cpu + wish.cpu <= has("cpu"))
            && (wish.gpu == 0 || gpu + wish.gpu <= has("nvidia.com/gpu"))
            && self.on(node).count() < 8
            && (wish.tolerates || !is_tainted)
            && wish.zone.is_none_or(|zone| *self.zone(node) == json!(zone.to_string()))
            && wish.port.is_none_or(|port| self.on(node).all(|one| one.port != Some(port)))
            && !(wish.is_alone && is_near_lonely)
            && (!wish.is_spread || skew() <= 1)
    }

    fn feasible(&self, wish: &Wish) -> Vec<&String> {
        self.nodes.keys().filter(|node| self.fits(node, wish)).collect()
    }

    /// Nobody has more than there is.
    fn check(&self, scene: &Scene) {
        for (name, node) in &self.nodes {
            let slot = scene.snapshot.slot_of(name).expect(THERE);
            let count = i64::try_from(self.on(name).count()).expect(THERE);
            assert_eq!(scene.snapshot.columns.requested(crate::resources::PODS, slot), count);
            let cpu: i64 = self.on(name).map(|one| one.cpu).sum();
            let id = crate::resources::CPU;
            assert_eq!(scene.snapshot.columns.requested(id, slot), cpu * 1_000, "{node}");
        }
    }
}

fn run(deeds: Vec<Deed>) {
    let mut scene = Scene::new();
    let mut world = World::default();
    for (number, deed) in deeds.into_iter().enumerate() {
        match deed {
            Deed::Node { at, cpu, gpu, zone, is_tainted } => {
                let name = format!("n{at}");
                // A node that shrinks may be overcommitted; that is not the scheduler's doing.
                if world.nodes.contains_key(&name) {
                    continue;
                }
                let mut node = json!({"metadata": {"name": name,
                    "labels": {ZONE: zone.to_string()}},
                    "status": {"allocatable": {"cpu": cpu.to_string(), "pods": "8",
                        "nvidia.com/gpu": gpu.to_string()}}});
                if is_tainted {
                    node["spec"]["taints"] = json!([{"key": "t", "effect": "NoSchedule"}]);
                }
                scene.snapshot.put_node(&Object::new(node.clone()));
                world.nodes.insert(name, node);
            }
            Deed::NodeGoes { at } => {
                let name = format!("n{at}");
                scene.snapshot.remove_node(&name);
                if world.nodes.remove(&name).is_some() {
                    let gone = world.pods.iter().filter(|(_, (node, ..))| *node == name);
                    let gone: Vec<String> = gone.map(|(pod, _)| pod.clone()).collect();
                    for pod in gone {
                        scene.snapshot.displace(&pod);
                        world.pods.remove(&pod);
                    }
                }
            }
            Deed::Pod(wish) => {
                let name = format!("p{number}");
                let pod = scene.read(wish.spec(&name));
                let feasible = world.feasible(&wish);
                match scene.verdict(&pod) {
                    Ok(node) => {
                        assert!(feasible.contains(&&node), "{node} of {feasible:?} {wish:?}");
                        scene.snapshot.place(&pod, &node);
                        world.pods.insert(name, (node, Value::Null, wish));
                    }
                    Err(diagnosis) => {
                        assert!(feasible.is_empty(), "{feasible:?} {}", diagnosis.message());
                    }
                }
            }
            Deed::PodGoes { at } => {
                let name = world.pods.keys().nth(at).cloned();
                if let Some(name) = name {
                    world.pods.remove(&name);
                    assert!(scene.snapshot.displace(&name));
                }
            }
            Deed::Gang { size, least, wish } => {
                gang(&mut scene, &mut world, number, (size, least, wish))
            }
        }
        world.check(&scene);
    }
}

fn gang(
    scene: &mut Scene,
    world: &mut World,
    number: usize,
    (size, least, wish): (usize, usize, Wish),
) {
    let object = json!({"metadata": {"namespace": "a", "name": "g"}, "spec": {"minMember": least}});
    let group = Group::read(Arc::new(Object::new(object)));
    let profile = scene.profile.clone();
    let names: Vec<String> = (0..size).map(|at| format!("g{number}-{at}")).collect();
    let pods: Vec<_> = names.iter().map(|name| (scene.read(wish.spec(name)), &profile)).collect();
    let before = scene.snapshot.placed_count();
    let gang = Gang { group: &group, pending: &pods, placed: 0 };
    scene.classes.begin_round();
    match gang::decide(&mut scene.snapshot, &mut scene.classes, &gang) {
        Err(_) => assert_eq!(scene.snapshot.placed_count(), before),
        Ok(found) => {
            assert!(found.len() >= least, "{} of {least}", found.len());
            for (pod, slot) in found {
                let node = scene.snapshot.node(slot).expect(THERE).name.to_string();
                assert!(world.fits(&node, &wish), "{node} {wish:?}");
                world.pods.insert(pod.name().name.to_string(), (node, Value::Null, wish.clone()));
            }
        }
    }
}

const CASES: u32 = 256;

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(CASES)
    })]

    #[test]
    fn every_decision_is_one_that_a_plain_reading_of_the_objects_allows(
        deeds in prop::collection::vec(deed(), 1..60),
    ) {
        run(deeds);
    }
}
