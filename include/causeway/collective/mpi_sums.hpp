// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_MPI_SUMS_HPP
#define CAUSEWAY_COLLECTIVE_MPI_SUMS_HPP

// What is behind collective::mpi_site: sums and broadcasts among the ranks of a communicator, in each of their ways. Only
// bodies include it: it has MPI's own types.

#include <causeway/collective/mpi_site_options.hpp>
#include <causeway/collective/options.hpp>
#include <causeway/collective/shared_sum.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/net/mpi_library.hpp>
#include <causeway/net/mpi_transport.hpp>
#include <causeway/net/mpi_world.hpp>
#include <causeway/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

/// Where all send to all, a sum of more is quicker in MPI's own way on any machine.
inline constexpr std::size_t most_direct = std::size_t{16} << 10U;

/// MPI's signature. Each addition rounds, as in hardware that adds bf16.
inline void add_bf16(void* in, void* in_out, int* count, MPI_Datatype*) {
  const auto* const a = static_cast<const bf16*>(in);
  auto* const b = static_cast<bf16*>(in_out);
  for (int i = 0; i < *count; ++i) b[i] = bf16{static_cast<float>(a[i]) + static_cast<float>(b[i])};
}

/// One sum at a time on a communicator of its own.
class mpi_sums {
 public:
  mpi_sums(net::detail::mpi_communicator line, net::mpi_transport words, const mpi_site_options& options, duration patience)
      : line_{std::move(line)}, words_{std::move(words)}, options_{options}, patience_{patience} {}
  mpi_sums(const mpi_sums&) = delete;
  mpi_sums& operator=(const mpi_sums&) = delete;
  ~mpi_sums() {
    if (own_sum_ != MPI_OP_NULL && line_.process->usable()) (void)MPI_Op_free(&own_sum_);
  }

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(line_.size); }
  [[nodiscard]] std::uint32_t rank() const { return static_cast<std::uint32_t>(line_.rank); }
  [[nodiscard]] const mpi_site_options& options() const { return options_; }
  [[nodiscard]] bool shares_memory() const { return shared_ != nullptr; }
  [[nodiscard]] any_clock& clock() { return line_.clock; }
  [[nodiscard]] thread_pool& pool() { return options_.pool != nullptr ? *options_.pool : workspace_.alone(); }

  CAUSEWAY_DECL result<void> begin(mpi_way way, std::byte* data, std::size_t count, MPI_Datatype type, MPI_Op how);
  /// Memory for sums, where all ranks can have it. All ranks call it.
  CAUSEWAY_DECL result<void> share_memory(const net::mpi_world& world);
  CAUSEWAY_DECL result<void> begin_shared(std::span<float> data, float factor);
  CAUSEWAY_DECL result<bool> look(net::detail::mpi_pause& pause);
  CAUSEWAY_DECL result<void> finish();
  CAUSEWAY_DECL result<void> by_messages(std::span<float> data, bool mean);
  CAUSEWAY_DECL result<void> broadcast_messages(std::uint32_t from, std::span<float> data);
  CAUSEWAY_DECL result<void> broadcast(std::uint32_t from, std::span<float> data);
  CAUSEWAY_DECL result<int> least(int mine);
  CAUSEWAY_DECL result<void> slowest(std::span<double> times);
  CAUSEWAY_DECL result<MPI_Op> sum_of_bf16();

 private:
  [[nodiscard]] result<void> ready() const {
    if (line_.process->failure) return *line_.process->failure;
    return {};
  }
  result<void> ended(const error& why) { return line_.process->fail_for_good(why); }
  result<void> check(int code, const char* where) {
    auto outcome = net::detail::mpi_check(code, where);
    return outcome ? outcome : ended(outcome.error());
  }
  result<void> wait(MPI_Request& request, const char* where) {
    return net::detail::mpi_wait(line_, request, patience_, where);
  }
  CAUSEWAY_DECL result<void> gather_parts();
  CAUSEWAY_DECL result<void> begin_direct(std::span<float> data);
  CAUSEWAY_DECL void end_direct();
  CAUSEWAY_DECL result<bool> look_shared(net::detail::mpi_pause& pause);
  CAUSEWAY_DECL collective_options message_options();

  net::detail::mpi_communicator line_;
  net::mpi_transport words_;
  std::unique_ptr<shared_sum> shared_;
  mpi_site_options options_;
  duration patience_;
  collective_workspace workspace_;
  MPI_Op own_sum_ = MPI_OP_NULL;
  std::vector<MPI_Request> requests_;
  std::uint64_t number_ = 0;
  std::uint32_t looks_ = 0;

  std::vector<std::byte> part_;    ///< not in place: MPICH 4.0 fails an assertion there
  std::byte* in_parts_ = nullptr;  ///< the sum whose parts are still to be gathered
  std::vector<float> terms_;       ///< of all ranks, for `direct_`
  std::span<float> direct_{};      ///< the sum whose terms are on their way
  MPI_Datatype type_ = MPI_FLOAT;
  std::size_t width_ = 0;
  std::vector<int> counts_, places_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/mpi_sums.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_MPI_SUMS_HPP
