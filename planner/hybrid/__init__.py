"""Cache or communicate, per remote vertex and layer (NeutronCloud): what each choice costs, and which to make."""
