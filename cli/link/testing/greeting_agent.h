// A shell script that stands in for an agent.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "wire/frame.h"

namespace tfdist::cli {

// For printf(1).
inline std::string Octal(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
  return text;
}

// Says hello with the hash that its file has now, then does `rest`.
inline std::string GreetingAgent(std::string_view rest) {
  const std::string no_hash(64, '0');
  protocol::Hello hello;
  hello.serving = protocol::Serving::kStart;
  hello.agent_sha256 = no_hash;
  hello.base = "/base";
  const std::string frame = protocol::Frame({std::string(protocol::type::kHello), 0, hello});
  const size_t hash = frame.find(no_hash);
  return fmt::format("#!/bin/sh\nprintf '{}'; sha256sum <\"$0\" | head -c 64; printf '{}'\n{}\n",
                     Octal(frame.substr(0, hash)), Octal(frame.substr(hash + no_hash.size())),
                     rest);
}

}  // namespace tfdist::cli
