// For tests: the rules that the journal of every job keeps, whatever has happened to it. They are the
// arrows of docs/design.md ("The life of a job"), and what a replay has to give.
#pragma once

#include <string>
#include <vector>

#include "job/state.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// All of a state that decides anything, as text.
std::string Digest(const protocol::JobState& state);

// What is wrong with `events`, from which a coordinator has come to the state `live`; "": nothing. At
// each prefix that a decision of the policy follows, a coordinator that read the prefix from disk
// decides the same.
std::string BrokenRule(const std::vector<protocol::Event>& events, const protocol::JobState& live);

}  // namespace tfdist::agent
