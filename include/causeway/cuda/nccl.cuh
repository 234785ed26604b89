// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_NCCL_CUH
#define CAUSEWAY_CUDA_NCCL_CUH

// A site of GPUs over NCCL: NVLink within a machine, its network within a rack. One .cu file of a program includes this and
// gives the rest of it what `open_site` returns. Link causeway::nccl.

#include <causeway/collective/site.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/device/runtime.cuh>
#include <causeway/cuda/site.hpp>
#include <causeway/net/transport.hpp>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 14, 0), "causeway: calls that do not block came with NCCL 2.14");

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

struct open_site_options {
  int device = 0;
  /// The longest that a member waits for the others: in opening, and in each operation. A member that exchanges with other
  /// sites comes late to its own, so this must be longer than such an exchange.
  duration patience = std::chrono::minutes{10};
};

/// Our error for one of NCCL's, which must not be ncclSuccess; `where` is the operation. `comm` may be null.
[[nodiscard]] inline error to_error(ncclResult_t code, ncclComm_t comm, std::string where) {
  std::string said = ncclGetErrorString(code);
  const char* const last = ncclGetLastError(comm);
  if (last != nullptr && *last != '\0') said += std::string{": "} + last;
  switch (code) {
    case ncclRemoteError:
    case ncclSystemError: return fail(errc::peer_lost, std::move(where), "a member was lost, or the line to it: " + said);
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      return fail(errc::invalid_argument, std::move(where), said + "; every member needs a device of its own");
    default: return fail(errc::device_lost, std::move(where), said + "; NCCL_DEBUG=INFO says more");
  }
}

/// A communicator and the stream that it works in. Memory may be the device's or managed.
class nccl_line {
 public:
  /// Starts to connect: `poll` says when it has.
  [[nodiscard]] static result<nccl_line> create(int device, std::uint32_t size, std::uint32_t rank, const site_id& id) {
    CAUSEWAY_ASSIGN(const device_scope scope, device_scope::enter(device));
    CAUSEWAY_ASSIGN(auto work, stream::create());
    CAUSEWAY_ASSIGN(auto word, device_buffer<int>::create(1));
    nccl_line line{device, size, rank, std::move(work), std::move(word)};
    ncclUniqueId name;
    static_assert(sizeof name.internal == sizeof(site_id));
    std::memcpy(name.internal, id.data(), id.size());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    CAUSEWAY_TRY(
        line.check(ncclCommInitRankConfig(line.comm_.get(), static_cast<int>(size), name, static_cast<int>(rank), &config),
                   "opening a site"));
    return result<nccl_line>{std::move(line)};
  }

  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }

  [[nodiscard]] result<void> start_mean(float* x, std::size_t count) {
    CAUSEWAY_ASSIGN(const device_scope scope, device_scope::enter(device_));
    fetch(x, count);
    return check(ncclAllReduce(x, x, count, ncclFloat32, ncclAvg, *comm_, work_.handle()), "a mean within the site");
  }
  [[nodiscard]] result<void> start_broadcast(std::uint32_t from, float* x, std::size_t count) {
    CAUSEWAY_ASSIGN(const device_scope scope, device_scope::enter(device_));
    fetch(x, count);
    return check(ncclBroadcast(x, x, count, ncclFloat32, static_cast<int>(from), *comm_, work_.handle()),
                 "a broadcast within the site");
  }
  [[nodiscard]] result<void> start_all_of(bool mine) {
    CAUSEWAY_ASSIGN(const device_scope scope, device_scope::enter(device_));
    const int word = mine ? 1 : 0;  // CUDA has read pageable memory when the call returns
    CAUSEWAY_TRY(cuda::check(cudaMemcpyAsync(word_.data(), &word, sizeof word, cudaMemcpyHostToDevice, work_.handle()),
                             "a word to the site"));
    return check(ncclAllReduce(word_.data(), word_.data(), 1, ncclInt32, ncclMin, *comm_, work_.handle()),
                 "a word to the site");
  }
  [[nodiscard]] result<bool> answer() {
    CAUSEWAY_ASSIGN(const device_scope scope, device_scope::enter(device_));
    int word = 0;
    CAUSEWAY_TRY(cuda::check(cudaMemcpyAsync(&word, word_.data(), sizeof word, cudaMemcpyDeviceToHost, work_.handle()),
                             "a word of the site"));
    CAUSEWAY_TRY(work_.synchronize());
    return word == 1;
  }

  /// NCCL's own state first: until a call that did not block has taken effect, the stream is not to be touched.
  [[nodiscard]] result<progress> poll() {
    ncclResult_t state = ncclSuccess;
    CAUSEWAY_TRY(check(ncclCommGetAsyncError(*comm_, &state), "a site"));
    if (state == ncclInProgress) return progress::under_way;
    CAUSEWAY_TRY(check(state, "a site"));
    const cudaError_t done = cudaStreamQuery(work_.handle());
    if (done == cudaErrorNotReady) return progress::under_way;
    CAUSEWAY_TRY(cuda::check(done, "waiting for a site"));
    return progress::done;
  }

  void abort() noexcept { comm_.reset(); }

 private:
  /// Nothing is under way in a line that is left, unless it failed; and to destroy a communicator instead would wait for
  /// the others to do the same.
  struct abandon {
    void operator()(ncclComm_t* comm) const noexcept {
      if (*comm != nullptr) (void)ncclCommAbort(*comm);
      delete comm;
    }
  };

  nccl_line(int device, std::uint32_t size, std::uint32_t rank, stream work, device_buffer<int> word)
      : device_{device},
        size_{size},
        rank_{rank},
        work_{std::move(work)},
        word_{std::move(word)},
        comm_{new ncclComm_t{}} {}

  [[nodiscard]] result<void> check(ncclResult_t code, const char* where) const {
    if (code == ncclSuccess || code == ncclInProgress) return {};
    return to_error(code, comm_ ? *comm_ : nullptr, where);
  }

  /// Pages that the host touched come back at the rate of the bus; a hint, which device memory and some systems refuse.
  void fetch(const void* p, std::size_t count) const noexcept {
#if CUDART_VERSION >= 13000
    const cudaMemLocation here{cudaMemLocationTypeDevice, device_};
    const cudaError_t hint = cudaMemPrefetchAsync(p, count * sizeof(float), here, 0, work_.handle());
#else
    const cudaError_t hint = cudaMemPrefetchAsync(p, count * sizeof(float), device_, work_.handle());
#endif
    if (hint != cudaSuccess) (void)cudaGetLastError();
  }

  int device_;
  std::uint32_t size_;
  std::uint32_t rank_;
  stream work_;
  device_buffer<int> word_;
  std::unique_ptr<ncclComm_t, abandon> comm_;  ///< NCCL writes there when it has connected, wherever the line is by then
};
static_assert(SiteLine<nccl_line>);

namespace detail {

/// The id of a new communicator where this is the first member. Any where not: also a look whether there is a device.
[[nodiscard]] inline result<site_id> id_for_site(int device, bool first) {
  CAUSEWAY_ASSIGN(const int devices, device_count());
  if (device < 0 || device >= devices) {
    return fail(errc::invalid_argument, "device " + std::to_string(device),
                "there are " + std::to_string(devices) + " devices, counted from 0");
  }
  site_id id{};
  if (!first) return id;
  ncclUniqueId made;
  const ncclResult_t code = ncclGetUniqueId(&made);
  if (code != ncclSuccess) return to_error(code, nullptr, "naming a site");
  std::memcpy(id.data(), made.internal, id.size());
  return id;
}

}  // namespace detail

/// The site of `members`, peers of `over` in the order of their ranks, this one among them, each with a device of its own.
/// All of them call it, before `over` goes to a trainer; messages go over `collective::channels::site`. Errors come to all
/// members: errc::unsupported where one has no device. What travels later goes between the devices, unencrypted and
/// between members that trust each other.
[[nodiscard]] inline result<std::shared_ptr<collective::site>> open_site(net::any_transport& over,
                                                                         const std::vector<net::peer_index>& members,
                                                                         const open_site_options& options = {}) {
  const auto found = std::find(members.begin(), members.end(), over.self());
  if (found == members.end()) return fail(errc::invalid_argument, "open_site", "this peer is not among the members");
  const auto rank = static_cast<std::uint32_t>(found - members.begin());
  any_clock clock;
  const auto mine = detail::id_for_site(options.device, rank == 0);
  CAUSEWAY_ASSIGN(const site_id id, agree_on_id(over, members, mine, clock.now() + options.patience));
  CAUSEWAY_ASSIGN(auto line, nccl_line::create(options.device, static_cast<std::uint32_t>(members.size()), rank, id));
  CAUSEWAY_TRY(wait_for(clock, options.patience, [&] { return line.poll(); }));
  return std::shared_ptr<collective::site>{
      std::make_shared<watched_site<nccl_line>>(std::move(line), options.patience, std::move(clock))};
}

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_NCCL_CUH
