//! The rules of security contexts.

use crate::registry::checks::{self, Errors};
use crate::registry::edit;
use crate::registry::field::Field;
use crate::registry::names;

const ID_MAX: i64 = u32::MAX as i64;
const SYSCTL_BYTES_MAX: usize = 253;
const APP_ARMOR_BYTES_MAX: usize = 4095;

pub fn validate_pod(spec: &Field<'_>, errors: &mut Errors) {
    let context = spec.at("securityContext");
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        checks::in_range(&context.at(name), 0, ID_MAX, errors);
    }
    for group in context.items("supplementalGroups") {
        checks::in_range(&group, 0, ID_MAX, errors);
    }
    if spec.flag("shareProcessNamespace") && spec.flag("hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(context.at("shareProcessNamespace").invalid_value(true, detail));
    }
    validate_sysctls(&context, errors);
    let policy = context.at("fsGroupChangePolicy");
    checks::absent_or_one_of(&policy, &["Always", "OnRootMismatch"], errors);
    validate_seccomp(&context.at("seccompProfile"), errors);
    validate_app_armor(&context.at("appArmorProfile"), errors);
    let policy = context.at("supplementalGroupsPolicy");
    checks::absent_or_one_of(&policy, &["Merge", "Strict"], errors);
    let policy = context.at("seLinuxChangePolicy");
    checks::absent_or_one_of(&policy, &["MountOption", "Recursive"], errors);
}

fn is_sysctl(name: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_segment = |segment: &str| {
        let bytes = segment.as_bytes();
        bytes.first().is_some_and(alphanumeric)
            && bytes.last().is_some_and(alphanumeric)
            && bytes.iter().all(|byte| alphanumeric(byte) || b"-_".contains(byte))
    };
    name.len() <= SYSCTL_BYTES_MAX && name.split(['.', '/']).all(is_segment)
}

fn validate_sysctls(context: &Field<'_>, errors: &mut Errors) {
    let mut seen: Vec<&str> = Vec::new();
    for sysctl in context.items("sysctls") {
        let name = sysctl.at("name");
        if name.as_text().is_empty() {
            errors.push(name.required(""));
        } else if !is_sysctl(name.as_text()) {
            errors.push(name.invalid(format!(
                "must have at most {SYSCTL_BYTES_MAX} characters and match regex \
                 ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
            )));
        } else if seen.contains(&name.as_text()) {
            errors.push(name.duplicate());
        }
        seen.push(sysctl.text("name"));
    }
}

fn validate_seccomp(profile: &Field<'_>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let kind = profile.at("type");
    let known = ["Localhost", "RuntimeDefault", "Unconfined"];
    match kind.as_text() {
        "" => errors.push(kind.required("type is required when seccompProfile is set")),
        text if known.contains(&text) => {}
        _ => errors.push(kind.not_supported(&known)),
    }
    let path = profile.at("localhostProfile");
    match (kind.as_text() == "Localhost", path.is_set()) {
        (true, false) => {
            errors.push(path.required("must be set when seccomp type is Localhost"));
        }
        (true, true) => checks::faults(&path, names::descending_path(path.as_text()), errors),
        (false, true) => {
            let detail = "can only be set when seccomp type is Localhost";
            errors.push(path.invalid_value(profile.value.clone(), detail));
        }
        (false, false) => {}
    }
}

fn validate_app_armor(profile: &Field<'_>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let kind = profile.at("type");
    let name = profile.at("localhostProfile");
    match kind.as_text() {
        "Localhost" => {
            let text = name.as_text();
            if text.is_empty() {
                errors.push(name.required("must be set when AppArmor type is Localhost"));
            } else if text.trim() != text {
                errors.push(name.invalid("must not be padded with whitespace"));
            }
            if text.len() > APP_ARMOR_BYTES_MAX {
                errors.push(name.too_long(APP_ARMOR_BYTES_MAX));
            }
        }
        "RuntimeDefault" | "Unconfined" if name.is_set() => {
            errors.push(name.invalid("can only be set when AppArmor type is Localhost"));
        }
        "RuntimeDefault" | "Unconfined" => {}
        "" => errors.push(kind.required("type is required when appArmorProfile is set")),
        _ => errors.push(kind.not_supported(&["Localhost", "RuntimeDefault", "Unconfined"])),
    }
}

pub fn validate_container(container: &Field<'_>, spec: &Field<'_>, errors: &mut Errors) {
    let context = container.at("securityContext");
    if !context.is_set() {
        return;
    }
    for name in ["runAsUser", "runAsGroup"] {
        checks::in_range(&context.at(name), 0, ID_MAX, errors);
    }
    let mount = context.at("procMount");
    checks::absent_or_one_of(&mount, &["Default", "Unmasked"], errors);
    let host_users = spec.raw("hostUsers").as_bool().unwrap_or(true);
    if mount.as_text() == "Unmasked" && host_users {
        errors.push(mount.invalid("`hostUsers` must be false to use `Unmasked`"));
    }
    validate_seccomp(&context.at("seccompProfile"), errors);
    if context.raw("allowPrivilegeEscalation").as_bool() == Some(false) {
        if context.flag("privileged") {
            errors.push(context.invalid(
                "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            ));
        }
        let added = edit::list(context.value, &["capabilities", "add"]);
        if added.iter().any(|it| it == "CAP_SYS_ADMIN") {
            errors.push(context.invalid(
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` \
                 CAP_SYS_ADMIN",
            ));
        }
    }
    validate_app_armor(&context.at("appArmorProfile"), errors);
}

/// Users of its own and namespaces of the host do not go together.
pub fn validate_host_users(spec: &Field<'_>, errors: &mut Errors) {
    if spec.raw("hostUsers").as_bool() != Some(false) {
        return;
    }
    let detail = "when `pod.Spec.HostUsers` is false";
    for (flag, shown) in
        [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")]
    {
        if spec.flag(flag) {
            errors.push(spec.at(shown).forbidden(detail));
        }
    }
}
