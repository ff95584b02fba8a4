#include "cli/ssh/keys/key_offers.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/channel/tail.h"
#include "cli/ssh/keys/public_key.h"

namespace tfdist::ssh {
namespace {

// Security keys and certificates need more than libssh2 and we do.
bool IsSupported(std::string_view type) {
  return type == "ssh-ed25519" || type == "ssh-rsa" ||
         (type.starts_with("ecdsa-sha2-nistp") && type.find('@') == std::string_view::npos);
}

std::string AgentLabel(const AgentKey& key) {
  return fmt::format("{} {} ({}, ssh-agent)", cli::OnOneLine(KeyType(key.blob)),
                     Fingerprint(key.blob), cli::OnOneLine(key.comment, 60));
}

std::string FileLabel(const IdentityFile& file) {
  if (file.public_blob.empty()) return file.path;
  return fmt::format("{} {} ({})", cli::OnOneLine(KeyType(file.public_blob)),
                     Fingerprint(file.public_blob), file.path);
}

class Arranger {
 public:
  Arranger(const std::vector<AgentKey>& agent_keys, const std::vector<IdentityFile>& files)
      : agent_keys_(agent_keys), files_(files) {}

  void AddAgentKeysOfFiles() {
    for (const IdentityFile& file : files_) {
      const AgentKey* key = InAgent(file);
      if (key != nullptr && file.is_private) AddAgentKey(*key);
    }
  }
  void AddOtherAgentKeys() {
    for (const AgentKey& key : agent_keys_) {
      const bool listed = std::any_of(files_.begin(), files_.end(), [&](const IdentityFile& file) {
        return file.public_blob == key.blob;
      });
      if (!listed) AddAgentKey(key);
    }
  }
  void AddFiles() {
    for (const IdentityFile& file : files_) {
      if (InAgent(file) == nullptr || !file.is_private) AddFile(file);
    }
  }
  KeyOffers Take() { return std::move(result_); }

 private:
  [[nodiscard]] const AgentKey* InAgent(const IdentityFile& file) const {
    const auto found =
        std::find_if(agent_keys_.begin(), agent_keys_.end(),
                     [&](const AgentKey& key) { return key.blob == file.public_blob; });
    return found == agent_keys_.end() ? nullptr : &*found;
  }
  void AddAgentKey(const AgentKey& key) {
    if (!IsSupported(KeyType(key.blob))) {
      LeaveOutType(AgentLabel(key), fmt::format("ssh-agent holds a key of type {}",
                                                cli::OnOneLine(KeyType(key.blob))));
      return;
    }
    result_.offers.push_back(
        {.in_agent = true, .blob = key.blob, .path = {}, .label = AgentLabel(key)});
  }
  void LeaveOut(const std::string& label, const std::string& beyond) {
    result_.left_out.push_back(label);
    if (result_.beyond.empty()) result_.beyond = beyond;
  }
  void LeaveOutType(const std::string& label, const std::string& beyond) {
    LeaveOut(label + " (of a type that tfdist cannot use)", beyond);
  }
  void AddFile(const IdentityFile& file) {
    if (!file.is_private) {
      LeaveOut(file.path + " (no private key)", "IdentityFile names a public key");
    } else if (file.unprotected) {
      result_.left_out.push_back(file.path + " (others may read it; chmod 600 it)");
    } else if (file.encrypted) {
      result_.left_out.push_back(file.path + " (encrypted, and not in ssh-agent)");
    } else if (!file.public_blob.empty() && !IsSupported(KeyType(file.public_blob))) {
      LeaveOutType(file.path, fmt::format("{} is a key of type {}", file.path,
                                          cli::OnOneLine(KeyType(file.public_blob))));
    } else {
      result_.offers.push_back({.in_agent = false,
                                .blob = file.public_blob,
                                .path = file.path,
                                .label = FileLabel(file)});
    }
  }

  const std::vector<AgentKey>& agent_keys_;
  const std::vector<IdentityFile>& files_;
  KeyOffers result_;
};

}  // namespace

KeyOffers ArrangeOffers(const std::vector<AgentKey>& agent_keys,
                        const std::vector<IdentityFile>& files, bool identities_only) {
  Arranger arranger(agent_keys, files);
  arranger.AddAgentKeysOfFiles();
  if (!identities_only) arranger.AddOtherAgentKeys();
  arranger.AddFiles();
  return arranger.Take();
}

void LeaveOutShortRsaKeys(KeyOffers& keys, int required_bits) {
  constexpr int kUsualBits = 1024;  // ssh-keygen makes no shorter ones
  for (const KeyOffer& offer : keys.offers) {
    if (!offer.blob.empty() || required_bits <= kUsualBits || !keys.beyond.empty()) continue;
    keys.beyond = fmt::format("{} may be an RSA key that RequiredRSASize excludes", offer.path);
  }
  std::erase_if(keys.offers, [&](const KeyOffer& offer) {
    const size_t bits = RsaBits(offer.blob);
    if (bits == 0 || bits >= static_cast<size_t>(required_bits)) return false;
    keys.left_out.push_back(
        fmt::format("{} (an RSA key of {} bits; RequiredRSASize of ssh's configuration is {})",
                    offer.label, bits, required_bits));
    return true;
  });
}

}  // namespace tfdist::ssh
