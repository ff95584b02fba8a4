// The answer that one request still waits for. Copies answer the same request. Only the first
// answer counts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "agent/session/session.h"
#include "base/failures.h"
#include "wire/protocol.h"

namespace tfdist::agent {

class Reply {
 public:
  Reply(const std::shared_ptr<Session>& session, uint64_t id) : session_(session), id_(id) {}

  void Ok(protocol::Json body = protocol::Json::object()) const {
    Send({std::string(protocol::type::kOk), id_, std::move(body)});
  }
  void Fail(const Error& error) const { Send(protocol::ErrorMessage(id_, error)); }

  // Runs `work`; an Error that it throws is the answer.
  template <typename Work>
  void Try(Work work) const {
    try {
      work();
    } catch (const Error& e) {
      Fail(e);
    } catch (const protocol::Json::exception& e) {
      Fail(ProtocolError(Phase::kControl, std::string("malformed message: ") + e.what()));
    }
  }

 private:
  void Send(protocol::Message message) const {
    if (const auto session = session_.lock()) session->Send(std::move(message));
  }

  std::weak_ptr<Session> session_;
  uint64_t id_;
};

}  // namespace tfdist::agent
