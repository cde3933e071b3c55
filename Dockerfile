# The program in an image, for clusters that run our operators: `docker build -t REGISTRY/setpoint:TAG .`
# A program that is built already (for Debian 12 or older) is taken instead, with what BuildKit calls a
# build context: `docker buildx build --build-context program=DIRECTORY -t REGISTRY/setpoint:TAG .`
FROM rust:1-bookworm AS build
WORKDIR /source
COPY . .
ARG SETPOINT_COMMIT=""
ENV SETPOINT_COMMIT=$SETPOINT_COMMIT
RUN cargo build --release --locked --package setpoint

FROM scratch AS program
COPY --from=build /source/target/release/setpoint /setpoint

FROM debian:12-slim
COPY --from=program /setpoint /usr/local/bin/setpoint
# The user that the manifests name; it owns nothing.
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/setpoint"]
