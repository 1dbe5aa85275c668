test:
	cargo test --features sim
