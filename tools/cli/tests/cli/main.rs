//! The command line as a person and a program meet it: the built binary, its output and its exit codes.

#![cfg(test)]

mod audits;
mod aws;
mod captures;
mod connections;
mod consoles;
mod costs;
mod demo;
mod deployed;
mod deployments;
mod described;
mod destinations;
mod doctor;
mod documents;
mod effects;
mod endpoints;
mod forwards;
mod hand_overs;
mod hints;
mod in_front;
mod life;
mod manual;
mod many;
mod operators;
mod outages;
mod own_handlers;
mod pauses;
mod poison;
mod projects;
mod providers;
mod pulls;
mod readme;
mod restores;
mod routes;
mod screens;
mod stacks;
mod storms;
mod submits;
mod support;
mod terminal;
mod triggers;
mod verify;
mod watched;
