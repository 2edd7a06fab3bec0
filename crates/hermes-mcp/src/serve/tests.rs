use super::Principal;
