// Errors that code has to tell from each other. The phase and the texts of an Error are for people;
// code that has to decide looks at the type: one of these, or one that another header derives.
//
// A layer that adds the host keeps the type:
//   catch (Error& error) { error = error.WithHost(name); throw; }
#pragma once

#include <string>
#include <utility>

#include "base/error.h"

namespace tfdist {

// The connection to a peer broke, or the peer fell silent: whether what was asked of it has
// happened is not known. Thrown by channels and links alone. Asking again may help.
class LostConnection : public Error {
 public:
  using Error::Error;
};

// A peer could not be reached, so that nothing was asked of it. Asking again later may help.
class Unreachable : public Error {
 public:
  using Error::Error;
};

// A peer sent what the protocol does not allow. Asking again would bring the same.
class ProtocolError : public Error {
 public:
  using Error::Error;
};

// What the user wrote cannot be: the command line, or a value of the cluster file.
class UsageError : public Error {
 public:
  using Error::Error;
};

// A bug of ours: what the code relies on does not hold.
class Bug : public Error {
 public:
  explicit Bug(std::string cause)
      : Error(Phase::kInternal, std::move(cause), "this is a bug of tfdist: please report it") {}
};

// `error` with the host named, as the type that it is.
template <typename E>
[[nodiscard]] E WithHost(E error, std::string host) {
  static_cast<Error&>(error) = error.WithHost(std::move(host));
  return error;
}

}  // namespace tfdist
