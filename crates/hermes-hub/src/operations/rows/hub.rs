//! The Hub itself.

use super::super::{HttpMethod::Get, Operation};
use crate::{
    api_types::Scope,
    operations::document,
    service::{hub, overview},
};

pub(super) fn rows() -> Vec<Operation> {
    vec![
        Operation::new("healthz", &[Get], "/v1/healthz", hub::healthz)
            .docs("Health", "Reports that the Hub runs.")
            .public()
            .read_only()
            .returns::<hub::Health>(),
        Operation::new("readyz", &[Get], "/v1/readyz", hub::readyz)
            .docs(
                "Readiness",
                "Reports whether database, objects and disk are usable.",
            )
            .public()
            .read_only()
            .command("hub status")
            .success(&[200, 503])
            .returns::<hub::Readiness>(),
        Operation::new(
            "openapi",
            &[Get],
            "/v1/openapi.json",
            document::serve_openapi,
        )
        .docs("OpenAPI", "This interface as an OpenAPI 3.1 document.")
        .public()
        .read_only()
        .command("hub openapi")
        .returns_bytes(&["application/json"]),
        Operation::new("version", &[Get], "/v1/version", hub::version)
            .docs(
                "Version",
                "Shows the Hub's version, the protocols it supports and its features.",
            )
            .extended_tool()
            .read_only()
            .returns::<hub::HubVersion>(),
        Operation::new("get_overview", &[Get], "/v1/overview", overview::get)
            .docs(
                "Get an overview",
                "Shows how many tenants are in each state, which of them need attention, and the runs of the last day.",
            )
            .scope(Scope::TenantsRead)
            .read_only()
            .extended_tool()
            .command("hub overview")
            .returns::<overview::HubOverview>(),
        Operation::new("whoami", &[Get], "/v1/whoami", hub::whoami)
            .docs(
                "Who am I",
                "Shows what your token may do, for which tenants, and until when.",
            )
            .read_only()
            .extended_tool()
            .command("token whoami")
            .returns::<hub::WhoAmI>(),
    ]
}
