//! `kubectl apply --server-side`, `diff` and `explain` of a kind that the cluster defines: the
//! definition's schema says which lists have keys and which are wholes.

use crate::cluster::Cluster;

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gardens.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gardens, singular: garden, kind: Garden}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        description: Where things grow.
        properties:
          spec:
            type: object
            description: What is to grow.
            properties:
              soil: {type: string, description: What it grows in., enum: [clay, sand]}
              beds:
                type: array
                description: One for each sort.
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string}
                    rows: {type: integer, default: 1}
              tools: {type: array, items: {type: string}}
          status: {type: object, properties: {area: {type: integer}}}
";

fn garden(spec: &str) -> String {
    format!("apiVersion: example.com/v1\nkind: Garden\nmetadata: {{name: a}}\nspec: {spec}\n")
}

const SPEC: &str = "get garden a -o jsonpath={.spec}";

async fn start() -> Vec<Cluster> {
    let clusters = Cluster::for_each_kubectl().await;
    for cluster in &clusters {
        cluster.kubectl_with("create -f -", DEFINITION).await;
    }
    clusters
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_of_a_custom_kind_are_applied_refused_forced_and_removed() {
    for cluster in start().await {
        let apply = async |options: &str, spec: &str| {
            let line = format!("apply --server-side {options} -f -");
            cluster.kubectl_with(&line, &garden(spec)).await
        };
        let applied = "garden.example.com/a serverside-applied\n";
        let first = "{soil: clay, beds: [{name: peas, rows: 2}], tools: [rake]}";
        assert_eq!(apply("", first).await, applied);
        // The items of a list with keys have owners of their own.
        let beans = "{beds: [{name: beans}]}";
        assert_eq!(apply("--field-manager=other", beans).await, applied);
        let both = r#"{"beds":[{"name":"peas","rows":2},{"name":"beans","rows":1}],"soil":"clay","#;
        cluster.prints(SPEC, &format!(r#"{both}"tools":["rake"]}}"#)).await;

        let line = "apply --server-side --field-manager=third -f -";
        let wanted = "{soil: sand, beds: [{name: peas, rows: 3}], tools: [hoe]}";
        let text = cluster.refused(line, &garden(wanted)).await;
        assert!(text.contains("Apply failed with 3 conflicts"), "{text}");
        for part in [".spec.beds[name=\"peas\"].rows", ".spec.soil", ".spec.tools"] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(text.contains("conflicts with \"kubectl\""), "{text}");
        assert_eq!(apply("--field-manager=third --force-conflicts", wanted).await, applied);
        cluster.prints("get garden a -o jsonpath={.spec.soil}", "sand").await;
        cluster.prints("get garden a -o jsonpath={.spec.tools}", r#"["hoe"]"#).await;
        // Its first manager owns none of it any longer, and the second gives its bed up.
        assert_eq!(apply("", "{}").await, applied);
        assert_eq!(apply("--field-manager=other", "{}").await, applied);
        let left = r#"{"beds":[{"name":"peas","rows":3}],"soil":"sand","tools":["hoe"]}"#;
        cluster.prints(SPEC, left).await;
        let wrong = cluster.refused(line, &garden("{soil: mud}")).await;
        assert!(wrong.contains("Unsupported value: \"mud\""), "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_difference_of_a_custom_kind_is_what_the_server_would_make_of_it() {
    for cluster in start().await {
        let peas = garden("{beds: [{name: peas}]}");
        let diff = ["diff", "--server-side", "-f", "-"];
        let new = cluster.run(&diff, &peas).await;
        assert_eq!(new.status.code(), Some(1), "{new:?}");
        cluster.kubectl_with("apply --server-side -f -", &peas).await;
        let same = cluster.run(&diff, &peas).await;
        assert_eq!((same.status.code(), same.stdout.len()), (Some(0), 0), "{same:?}");
        let more = cluster.run(&diff, &garden("{beds: [{name: peas, rows: 4}]}")).await;
        let text = String::from_utf8_lossy(&more.stdout).into_owned();
        assert_eq!(more.status.code(), Some(1), "{more:?}");
        assert!(text.contains("\n-    rows: 1\n+    rows: 4\n"), "{text}");
        cluster.prints("get garden a -o jsonpath={.spec.beds[0].rows}", "1").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_custom_kind_is_explained() {
    for cluster in start().await {
        let kind = ["GROUP: example.com", "KIND: Garden", "VERSION: v1", "Where things grow."];
        cluster.shows("explain garden", &kind).await;
        let spec = ["beds\t<[]Object>", "One for each sort.", "soil\t<string>", "enum: clay, sand"];
        cluster.shows("explain gardens.spec", &spec).await;
        cluster.shows("explain garden.spec.beds", &["name\t<string> -required-", "rows"]).await;
        let all = ["metadata\t<ObjectMeta>", "status\t<Object>", "area\t<integer>"];
        cluster.shows("explain garden --recursive", &all).await;
    }
}
