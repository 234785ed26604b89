// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_MPI_TRANSPORT_HPP
#define CAUSEWAY_NET_MPI_TRANSPORT_HPP

// The Transport among the ranks of an MPI job: nonblocking point-to-point messages of MPI, whatever carries them (shared
// memory, InfiniBand, TCP). A message is a word that names it, and its content beside it; what is short travels in the
// word. Link causeway::mpi.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/mpi_options.hpp>
#include <causeway/net/mpi_world.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

namespace detail {
class mpi_engine;  // it has MPI's own types
}

/// Peer i is rank i of the world that it is opened in. Models Transport; all calls come from the thread that entered MPI.
///
/// Progress: bytes move while this rank waits, looks (`done`) or starts something, and not while it computes: MPI has no
/// thread of its own. What was sent before a computation and is short, or fits MPI's buffers, arrives nevertheless.
///
/// Deadlines: a receive that nobody has answered ends at its deadline, and all goes on. MPI cannot take back bytes that it
/// is moving, or that it has been given to send. If such an operation does not end within `close_grace` after its deadline,
/// the use of MPI ends: each later operation fails with the same error, so that the memory is not touched again. A sum is
/// such an operation: no rank can leave it alone.
class mpi_transport {
 public:
  /// All ranks of `world` call it; several transports in one world do not disturb each other.
  CAUSEWAY_DECL [[nodiscard]] static result<mpi_transport> open(const mpi_world& world,
                                                                const mpi_transport_options& options = {});

  CAUSEWAY_DECL [[nodiscard]] peer_index self() const noexcept;
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t size() const noexcept;
  CAUSEWAY_DECL operation send(peer_index to, const message_id& id, std::span<const std::byte> bytes);
  CAUSEWAY_DECL operation receive(peer_index from, const message_id& id, std::span<std::byte> buffer);
  /// errc::invalid_argument: the operation was waited for before, or names the peer itself. Other errors: see Transport.
  CAUSEWAY_DECL result<std::size_t> wait(operation op, time_point deadline);
  CAUSEWAY_DECL [[nodiscard]] bool done(operation op) const;
  CAUSEWAY_DECL bool wait_any(std::span<const operation> ops, time_point deadline);
  CAUSEWAY_DECL [[nodiscard]] bool sums() const noexcept;
  /// See SumsItself. Bytes move while this rank waits, looks or starts something, as those of messages.
  CAUSEWAY_DECL operation sum(std::span<float> data);
  /// Content and names, as they were given to MPI; of a sum of n ranks, the 2 (n-1)/n of its size that it takes at least.
  CAUSEWAY_DECL [[nodiscard]] traffic stats() const;

  /// One line per unfinished operation. Empty when there is none. From the transport's own thread, as all.
  CAUSEWAY_DECL [[nodiscard]] std::string describe_waits() const;

 private:
  CAUSEWAY_DECL explicit mpi_transport(std::shared_ptr<detail::mpi_engine> engine);

  std::shared_ptr<detail::mpi_engine> engine_;
};
static_assert(SumsItself<mpi_transport>);

}}}  // namespace causeway::CAUSEWAY_ABI::net

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/mpi_transport.ipp>
#endif

#endif  // CAUSEWAY_NET_MPI_TRANSPORT_HPP
