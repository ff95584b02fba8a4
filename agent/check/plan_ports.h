// The ports of a plan on this host: whether they are free, and the same ports taken for a moment.
#pragma once

#include <vector>

#include "agent/check/handshake.h"
#include "agent/check/held_ports.h"
#include "wire/host_check.h"

namespace tfdist::agent {

// What the tables of sockets and other jobs' plans say; nothing is bound, so that nobody who wants a port meanwhile is kept off
// it. Two exceptions: ports below 1024, which not every account may have, and hosts whose /proc shows no sockets.
std::vector<protocol::PortFact> LookAtPorts(const protocol::Survey& survey);

// Takes those that are free into `held`, which serves from then on, and says in `facts` which could not be had. A port that
// another check of this account has is no trouble: it is waited for (kOtherCheckLimit), and served by `late`.
void HoldPorts(const protocol::Survey& survey, const Handshake& handshake, HeldPorts& held,
               HeldPorts& late, std::vector<protocol::PortFact>& facts);

}  // namespace tfdist::agent
