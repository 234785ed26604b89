// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_STREAM_WAITS_HPP
#define CAUSEWAY_NET_ASIO_STREAM_WAITS_HPP

// Waits until a stream of a link can go on: over TCP by asio, in shared memory by the socket that wakes this side. The link
// does the work.

#include <causeway/net/asio_stream.hpp>

#include <functional>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Of one link. What is waited for is told under the transport's lock, on its thread; waits begin under the lock, too. The
/// link and its streams outlive their waits (`link::at_rest`).
class stream_waits {
 public:
  using handler = std::function<void(stream&)>;

  /// `readable`, `writable`: called once for each wait that ends well.
  stream_waits(link_context& shared, handler readable, handler writable)
      : shared_{&shared}, readable_{std::move(readable)}, writable_{std::move(writable)} {}

  /// Until bytes may have come. Sets `read_armed` meanwhile.
  CAUSEWAY_DECL void to_read(stream& s) const;

  /// Until there may be room for more. Sets `write_armed` meanwhile.
  CAUSEWAY_DECL void to_write(stream& s) const;

  /// From now on the other side wakes this one when its memory has changed.
  CAUSEWAY_DECL void to_be_woken(stream& s) const;

 private:
  // Memory has changed already: looks at it when other sockets have had their turn.
  CAUSEWAY_DECL void look_again(stream& s) const;
  CAUSEWAY_DECL void look_into_memory(stream& s) const;

  link_context* shared_;
  handler readable_;
  handler writable_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_stream_waits.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_STREAM_WAITS_HPP
