//! The expression language of Kubernetes (CEL): parsed, type-checked, costed, and evaluated within
//! a budget.
