//! The Hub itself.

use super::super::{Operation, Verb::Get};
use crate::service::hub;

pub(super) fn rows() -> Vec<Operation> {
    vec![
        Operation::new("healthz", &[Get], "/v1/healthz", hub::healthz)
            .says("Health", "Tells that the Hub runs.")
            .open()
            .reads()
            .gives::<hub::Health>(),
        Operation::new("readyz", &[Get], "/v1/readyz", hub::readyz)
            .says(
                "Readiness",
                "Tells whether database, objects and disk can be used.",
            )
            .open()
            .reads()
            .command("hub status")
            .success(&[200, 503])
            .gives::<hub::Readiness>(),
        Operation::new("openapi", &[Get], "/v1/openapi.json", hub::openapi)
            .says("OpenAPI", "This interface as an OpenAPI 3.1 document.")
            .open()
            .reads()
            .command("hub openapi")
            .gives_bytes(&["application/json"]),
        Operation::new("version", &[Get], "/v1/version", hub::version)
            .says(
                "Version",
                "Tells the Hub's version, the protocols it speaks and its features.",
            )
            .reads()
            .gives::<hub::Version>(),
        Operation::new("whoami", &[Get], "/v1/whoami", hub::whoami)
            .says(
                "Who am I",
                "Tells what your token may do, for which tenants, and until when.",
            )
            .reads()
            .extended_tool()
            .command("token whoami")
            .gives::<hub::WhoAmI>(),
    ]
}
