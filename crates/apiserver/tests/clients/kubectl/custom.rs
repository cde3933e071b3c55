//! Custom resources as kubectl's users define and use them.

use crate::cluster::Cluster;

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab, shortNames: [ct], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Spec, type: string, jsonPath: .spec.cronSpec}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: What the tab is to do.
            required: [cronSpec]
            properties:
              cronSpec:
                {type: string, description: When it runs., pattern: '^[0-9*]+( [0-9*]+){4}$'}
              image: {type: string, default: busybox}
              replicas: {type: integer, minimum: 1, maximum: 10}
          status: {type: object, properties: {replicas: {type: integer}}}
";

const TAB: &str = "
apiVersion: stable.example.com/v1
kind: CronTab
metadata: {name: nightly}
spec: {cronSpec: '* * * * 5', replicas: 2}
";

#[tokio::test]
async fn a_definition_and_its_objects_live_through_kubectl() {
    for cluster in Cluster::for_each_kubectl().await {
        let created = cluster.kubectl_with("create -f -", DEFINITION).await;
        assert_eq!(
            created,
            "customresourcedefinition.apiextensions.k8s.io/crontabs.stable.example.com created\n"
        );
        cluster
            .kubectl(
                "wait --for=condition=Established --timeout=20s crd/crontabs.stable.example.com",
            )
            .await;
        cluster.shows("get crd", &["crontabs.stable.example.com"]).await;
        let tab = cluster.kubectl_with("create -f -", TAB).await;
        assert_eq!(tab, "crontab.stable.example.com/nightly created\n");
        cluster.shows("get ct", &["NAME SPEC AGE\nnightly * * * * 5 "]).await;
        cluster
            .shows("get crontabs -o wide", &["NAME SPEC REPLICAS AGE\nnightly * * * * 5 2"])
            .await;
        cluster.shows("get all", &["crontab.stable.example.com/nightly"]).await;
        cluster.prints("get ct nightly -o jsonpath={.spec.image}", "busybox").await;
        cluster.shows("explain crontab.spec", &["cronSpec", "When it runs.", "-required-"]).await;
        cluster.shows("api-resources --api-group=stable.example.com", &["crontabs ct"]).await;
        cluster.kubectl("scale --replicas=4 ct/nightly").await;
        cluster.prints("get ct nightly -o jsonpath={.spec.replicas}", "4").await;
        cluster.kubectl("patch ct nightly --type=merge -p '{\"spec\":{\"replicas\":5}}'").await;
        cluster.kubectl("label ct nightly team=a").await;
        let bad = TAB.replace("* * * * 5", "sometimes");
        let refusal = cluster.refused("replace -f -", &bad).await;
        assert!(refusal.contains("spec.cronSpec in body should match"), "{refusal}");
        let unknown = TAB.replace("replicas: 2", "replcas: 2").replace("nightly", "other");
        let refusal = cluster.refused("create -f -", &unknown).await;
        assert!(refusal.contains("unknown field \"spec.replcas\""), "{refusal}");
        cluster.kubectl("delete ct nightly").await;
        cluster.kubectl("delete crd crontabs.stable.example.com --timeout=20s").await;
        let gone = cluster.refused("get ct", "").await;
        // It asks for what it remembers, or knows that it is gone.
        let texts = ["doesn't have a resource type", "could not find the requested resource"];
        assert!(texts.iter().any(|text| gone.contains(text)), "{gone}");
    }
}
