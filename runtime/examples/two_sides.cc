// A parameter server and a trainer in one process, as short as it gets: ten pushes move a variable
// from {0, 1, 2} + 10 back to {0, 1, 2}. In a job of several machines each side is a process of its
// own, and TF_CONFIG comes from the environment.
#include <sys/eventfd.h>

#include <cstdio>
#include <thread>

#include "base/unique_fd.h"
#include "runtime/client.h"
#include "runtime/common/memory.h"
#include "runtime/server.h"

using namespace tfdist;           // NOLINT(google-build-using-namespace)
using namespace tfdist::runtime;  // NOLINT(google-build-using-namespace)

int main() {
  KeepFreedMemory();
  TfConfig config = TfConfig::FromJson(R"({"task": {"type": "ps", "index": 0}, "cluster":
      {"ps": ["127.0.0.1:28471"], "worker": ["127.0.0.1:28472"]}})");
  const JobSecret secret =
      JobSecret::FromHex("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff");

  Server server({.config = config, .secret = secret});
  const UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  std::thread serving([&] { server.Run(stop.get()); });

  config.task = {"worker", 0};
  Client client({.config = config, .secret = secret}, {{"position", {3}}});
  Tensor position = {10, 11, 12};
  const Tensor gradient = {1, 1, 1};
  client.Create({position}, {.learning_rate = 1.0F});
  for (int i = 0; i < 10; ++i) client.PushPull({{0, gradient}}, {{0, position}});
  const uint64_t step = client.Pull({{0, position}});

  eventfd_write(stop.get(), 1);
  serving.join();
  std::printf("step %lu: %.4f %.4f %.4f, served %lu pushes\n", step, position[0], position[1],
              position[2], server.counters().pushes);
  return 0;
}
