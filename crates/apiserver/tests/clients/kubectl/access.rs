//! `kubectl auth`, and tokens of service accounts.

use crate::cluster::Cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_may_do_is_told() {
    for cluster in Cluster::for_each_kubectl().await {
        cluster.prints("auth can-i create pods", "yes\n").await;
        cluster.prints("auth can-i '*' '*' -A", "yes\n").await;
        cluster.kubectl("create role reader --verb=get,list --resource=pods,pods/log").await;
        cluster.kubectl("create rolebinding jane --role=reader --user=jane").await;
        let can = async |what: &str| {
            let line = format!("auth can-i {what} --as=jane");
            let output = cluster.run(&super::run::words(&line), "").await;
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        assert_eq!(can("list pods").await, "yes\n");
        assert_eq!(can("get pods --subresource=log").await, "yes\n");
        assert_eq!(can("list pods -n kube-system").await, "no\n");
        assert_eq!(can("delete pods").await, "no\n");
        assert_eq!(can("get /metrics").await, "no\n");
        let list = cluster.kubectl("auth can-i --list --as=jane").await;
        let pods = list.lines().find(|line| line.starts_with("pods ")).unwrap_or(&list);
        assert!(pods.ends_with("[get list]"), "{list}");
        let list = cluster.kubectl("auth can-i --list").await;
        assert!(list.contains("*.*") && list.contains("[*]"), "{list}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_grants_what_they_do_not_hold() {
    for cluster in Cluster::for_each_kubectl().await {
        cluster.kubectl("create role maker --verb=create --resource=roles").await;
        cluster.kubectl("create rolebinding jane --role=maker --user=jane").await;
        let line = "create role more --verb=delete --resource=secrets --as=jane";
        let text = cluster.refused(line, "").await;
        assert!(text.contains("grant RBAC permissions not currently held"), "{text}");
        cluster.refused("get role more", "").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_is_told_who_one_is() {
    // Older ones ask for a version of the review that no recent server has.
    for cluster in Cluster::for_each_kubectl_since(28).await {
        let parts = ["ATTRIBUTE", "Username", "setpoint-admin", "[system:masters"];
        cluster.shows("auth whoami", &parts).await;
        let line = "auth whoami -o jsonpath={.status.userInfo.username}";
        cluster.prints(&format!("{line} --as=jane"), "jane").await;
        let groups = "auth whoami --as=jane --as-group=a --as-group=b";
        cluster.shows(groups, &["[a b system:authenticated]"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_makes_its_bearer_the_account() {
    for cluster in Cluster::for_each_kubectl().await {
        cluster.kubectl("create serviceaccount robot").await;
        let token = cluster.kubectl("create token robot --duration=1h").await;
        // The kubeconfig's certificate would be shown beside the token.
        let path = cluster.directory.join("token-kubeconfig");
        let config = cluster.kubectl("config view --raw --minify -o json").await;
        let mut config: serde_json::Value = serde_json::from_str(&config).unwrap();
        config["users"][0]["user"] = serde_json::json!({"token": token.trim()});
        std::fs::write(&path, config.to_string()).unwrap();
        let option = format!("--kubeconfig={}", path.display());

        let robot = "system:serviceaccount:default:robot";
        let text = cluster.refused(&format!("get pods {option}"), "").await;
        let expected = format!("User \"{robot}\" cannot list resource \"pods\" in API group \"\"");
        assert!(text.contains(&expected), "{text}");
        let binding = "create rolebinding robot --clusterrole=view";
        cluster.kubectl(&format!("{binding} --serviceaccount=default:robot")).await;
        cluster.kubectl(&format!("get pods {option}")).await;
        let text = cluster.refused(&format!("create cm a {option}"), "").await;
        assert!(text.contains("cannot create resource \"configmaps\""), "{text}");
        cluster.kubectl("delete serviceaccount robot").await;
        let text = cluster.refused(&format!("get pods {option}"), "").await;
        assert!(text.contains("must be logged in to the server"), "{text}");
        let text = cluster.refused("create token missing", "").await;
        assert!(text.contains("serviceaccounts \"missing\" not found"), "{text}");
        let text = cluster.refused("create token default --duration=1s", "").await;
        assert!(text.contains("may not specify a duration less than 10 minutes"), "{text}");
    }
}
