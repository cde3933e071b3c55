# Relays what the profiler says of itself into a ConfigMap, while it runs and when it has ended.
set -u
status=/data/profiler_status.yaml
field() { sed -n "s/^$1: *//p" "$status" 2>/dev/null | head -n 1 | sed "s/^[\"']//; s/[\"']\$//"; }
apply() {
  kubectl create configmap "$OUTPUT" -n "$DGDR_NAMESPACE" --dry-run=client -o yaml "$@" \
    | kubectl label --local -f - -o yaml \
        "dgdr.nvidia.com/name=$DGDR_NAME" "dgdr.nvidia.com/namespace=$DGDR_NAMESPACE" \
        nvidia.com/managed-by=dynamo-operator \
    | kubectl patch --local -f - -o yaml --type merge -p "{\"metadata\":{\"ownerReferences\":[{
        \"apiVersion\":\"nvidia.com/v1beta1\",\"kind\":\"DynamoGraphDeploymentRequest\",
        \"name\":\"$DGDR_NAME\",\"uid\":\"$DGDR_UID\",\"controller\":true}]}}" \
    | kubectl apply -f -
}
profiler_has_ended() {
  test -n "$(kubectl get pod "$POD_NAME" -n "$DGDR_NAMESPACE" -o \
    jsonpath='{.status.containerStatuses[?(@.name=="profiler")].state.terminated.exitCode}')"
}
told= ticks=0
# The file is looked at every second, the server asked every ten, or when the file says it is over.
while :; do
  phase=$(field phase)
  if [ -n "$phase" ] && [ "$phase" != "$told" ]; then
    apply "--from-literal=phase=$phase" "--from-literal=message=$(field message)" && told=$phase
  fi
  case "$(field status)$((ticks % 10))" in
    success*|failed*|*0) if profiler_has_ended; then break; fi ;;
  esac
  ticks=$((ticks + 1))
  sleep 1
done
waited=0
while [ ! -s "$status" ] && [ "$waited" -lt 120 ]; do sleep 2; waited=$((waited + 2)); done
case "$(field status)" in
  success)
    apply --from-literal=phase=Done "--from-literal=message=$(field message)" \
      --from-literal=profiler_status=success --from-file=/data/final_config.yaml \
      --from-file=/data/profiler_status.yaml ;;
  failed)
    apply "--from-literal=phase=$(field phase)" "--from-literal=message=$(field message)" \
      --from-literal=profiler_status=failed "--from-literal=profiler_error=$(field error)" ;;
  *) exit 1 ;;
esac
