// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_INFORMANT_HPP
#define CAUSEWAY_NET_ASIO_INFORMANT_HPP

// Answers whoever asks at the address of a run what run this is (net/asio_ask.hpp): for a host of fixed peers and for a
// fabric.

#include <causeway/net/asio_ask.hpp>
#include <causeway/net/asio_conversation.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Answers strangers. Not thread-safe: all of it happens in one event loop.
class informant {
 public:
  CAUSEWAY_DECL explicit informant(piece_source pieces = {});
  ~informant() { stop(); }
  informant(const informant&) = delete;
  informant& operator=(const informant&) = delete;

  /// Takes a connection over whose first frame asked with `body`.
  CAUSEWAY_DECL void serve(const conversation_ptr& who, std::uint64_t run_id, std::span<const std::byte> body);

  CAUSEWAY_DECL void stop();

 private:
  static constexpr std::size_t most_talks = 32;
  static constexpr std::size_t question_bytes = 64;
  static constexpr std::chrono::seconds patience{30};

  CAUSEWAY_DECL void answer(const conversation_ptr& who, std::uint64_t run_id, std::span<const std::byte> body);

  CAUSEWAY_DECL void hear(const conversation_ptr& who, std::uint64_t run_id);

  piece_source pieces_;
  std::set<conversation_ptr> talks_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_informant.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_INFORMANT_HPP
