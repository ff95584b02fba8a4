#include "cli/ssh/keys/key_offers.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/channel/tail.h"
#include "cli/ssh/config/algorithms.h"
#include "cli/ssh/keys/public_key.h"

namespace tfdist::ssh {
namespace {

class Arranger {
 public:
  Arranger(const std::vector<AgentKey>& agent_keys, const std::vector<IdentityFile>& files,
           int required_bits)
      : agent_keys_(agent_keys), files_(files), required_bits_(required_bits) {}

  void AddAgentKeysOfFiles() {
    for (const IdentityFile& file : files_) {
      if (IsInAgent(file)) Add({.in_agent = true, .blob = file.public_blob, .path = {}});
    }
  }
  void AddOtherAgentKeys() {
    for (const AgentKey& key : agent_keys_) {
      const auto is_of = [&](const IdentityFile& file) { return file.public_blob == key.blob; };
      if (std::ranges::none_of(files_, is_of)) {
        Add({.in_agent = true, .blob = key.blob, .path = {}});
      }
    }
  }
  void AddFiles() {
    for (const IdentityFile& file : files_) {
      if (!file.odd.empty()) SetBeyond(file.odd);
      if (file.unprotected || file.encrypted || IsInAgent(file)) continue;
      Add({.in_agent = false, .blob = file.public_blob, .path = file.path});
    }
  }
  KeyOffers Take() { return std::move(result_); }

 private:
  [[nodiscard]] bool IsInAgent(const IdentityFile& file) const {
    return std::ranges::any_of(agent_keys_,
                               [&](const AgentKey& key) { return key.blob == file.public_blob; });
  }
  void SetBeyond(std::string why) {
    if (result_.beyond.empty()) result_.beyond = std::move(why);
  }
  void Add(KeyOffer offer) {
    const std::string type = KeyType(offer.blob);
    const std::string where = offer.in_agent ? "ssh-agent" : offer.path;
    if (!offer.blob.empty() && !IsKeyType(type)) {
      return SetBeyond(fmt::format("{} holds a key of type {}", where, cli::OnOneLine(type)));
    }
    const bool may_be_short = offer.blob.empty()
                                  ? required_bits_ > kUsualRsaBits
                                  : type == "ssh-rsa" && RsaBits(offer.blob) < required_bits_;
    if (may_be_short) {
      return SetBeyond(where + " may hold an RSA key that RequiredRSASize excludes");
    }
    result_.offers.push_back(std::move(offer));
  }

  const std::vector<AgentKey>& agent_keys_;
  const std::vector<IdentityFile>& files_;
  const int required_bits_;
  KeyOffers result_;
};

}  // namespace

KeyOffers ArrangeOffers(const std::vector<AgentKey>& agent_keys,
                        const std::vector<IdentityFile>& files, const HostConfig& host) {
  Arranger arranger(agent_keys, files, host.required_rsa_bits);
  arranger.AddAgentKeysOfFiles();
  if (!host.identities_only) arranger.AddOtherAgentKeys();
  arranger.AddFiles();
  return arranger.Take();
}

}  // namespace tfdist::ssh
