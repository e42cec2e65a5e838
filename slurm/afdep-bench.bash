# Completion of afdep-bench for bash; for zsh run `autoload bashcompinit && bashcompinit` first.
# Generated: `make completion`. Use it by `source slurm/afdep-bench.bash`.
_afdep_bench() {
    local words="campaign claims doctor records status calibrate device-tests empty-exchange faults fit hunt sanitize screen validate"
    case "${COMP_WORDS[1]}" in
        campaign) words="help" ;;
        claims) words="help" ;;
        doctor) words="help" ;;
        records) words="help" ;;
        status) words="help" ;;
        calibrate) words="run plan report archive export help calibrate= launcher= calibrate.most_spread_pct= calibrate.least_spread_ns= calibrate.bounds= launcher.name= launcher.jobs= launcher.timeout_s= launcher.minutes= launcher.out= launcher.to= base=" ;;
        device-tests) words="run plan report archive export help launcher= launcher.name= launcher.jobs= launcher.timeout_s= launcher.minutes= launcher.out= launcher.to= limit_s=" ;;
        empty-exchange) words="run plan report archive export help exchange= backend= launcher= exchange.top_k= exchange.capacity= exchange.bucket= exchange.transport_sms= exchange.collect= exchange.mode= exchange.seed= backend.name= backend.machine= backend.pairs= backend.num_exchanges= backend.proof_exchanges= backend.ranks_per_gpu= backend.device= launcher.name= launcher.jobs= launcher.timeout_s= launcher.minutes= launcher.out= launcher.to= layouts= arms= hidden= num_experts=" ;;
        faults) words="run plan report archive export help launcher= launcher.name= launcher.jobs= launcher.timeout_s= launcher.minutes= launcher.out= launcher.to= backends= layouts= shape.hidden= shape.num_experts= shape.top_k= shape.tokens= shape.transport_sms= shape.exchanges= rounds= late_us= timeout_s= stuck_s= limit_s= seed= shipped_seeds=" ;;
        fit) words="run plan report archive export help layout= hidden= dtype= routing= tokens= arm= fit= screen= exchange= backend= launcher= fit.target= fit.machine= fit.arms= fit.constants= fit.no_effect= fit.evaluations= fit.pull_pct= fit.step= fit.step_down= fit.num_exchanges= fit.slope_exchanges= fit.route_tokens= fit.reach= fit.collinear= fit.identified_pct= screen.name= screen.published= screen.declared_aa= exchange.top_k= exchange.capacity= exchange.bucket= exchange.transport_sms= exchange.collect= exchange.mode= exchange.seed= backend.name= backend.machine= backend.pairs= backend.num_exchanges= backend.proof_exchanges= backend.ranks_per_gpu= backend.device= launcher.name= launcher.jobs= launcher.timeout_s= launcher.minutes= launcher.out= launcher.to= source= digest=" ;;
        hunt) words="run plan report archive export help arm= hunt= launcher= hunt.layouts= hunt.hidden= hunt.dtype= hunt.experts_per_rank= hunt.top_k= hunt.capacity= hunt.most_tokens= hunt.transport_sms= hunt.exchanges= hunt.graphs= hunt.buffers= hunt.aborts= hunt.controls= hunt.fiber= launcher.name= launcher.jobs= launcher.timeout_s= launcher.minutes= launcher.out= launcher.to= budget= first_seed= seeds=" ;;
        sanitize) words="run plan report archive export help launcher= launcher.name= launcher.jobs= launcher.timeout_s= launcher.minutes= launcher.out= launcher.to= arms= tools= shape.hidden= shape.num_experts= shape.top_k= shape.tokens= shape.transport_sms= shape.exchanges= timeout_s= limit_s=" ;;
        screen) words="run plan report archive export help layout= hidden= dtype= routing= tokens= arm= screen= exchange= backend= launcher= screen.name= screen.published= screen.declared_aa= exchange.top_k= exchange.capacity= exchange.bucket= exchange.transport_sms= exchange.collect= exchange.mode= exchange.seed= backend.name= backend.machine= backend.pairs= backend.num_exchanges= backend.proof_exchanges= backend.ranks_per_gpu= backend.device= launcher.name= launcher.jobs= launcher.timeout_s= launcher.minutes= launcher.out= launcher.to= trees.baseline= trees.candidate= trace=" ;;
        validate) words="run plan report archive export help validation= launcher= validation.layouts= validation.machine= validation.seed= validation.choose= validation.cover.arm= validation.cover.dtype= validation.cover.hidden= validation.cover.top_k= validation.cover.transport_sms= validation.cover.tokens= validation.cover.routing= validation.cover.mode= validation.every.arm= validation.every.dtype= validation.every.mode= validation.every.hidden= validation.every.num_experts= validation.every.top_k= validation.every.transport_sms= validation.every.tokens= validation.every.routing= validation.cases= launcher.name= launcher.jobs= launcher.timeout_s= launcher.minutes= launcher.out= launcher.to= backends= cases=" ;;
    esac
    [[ $COMP_CWORD == 1 ]] && words="campaign claims doctor records status calibrate device-tests empty-exchange faults fit hunt sanitize screen validate"
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}")
    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -F _afdep_bench afdep-bench
