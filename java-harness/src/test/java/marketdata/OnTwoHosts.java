package marketdata;

import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * Gives tests that ask for it one pair of {@link Hosts}, made once and removed at the end of the run. Of a test
 * that fails it shows what its programs said.
 */
final class OnTwoHosts implements ParameterResolver, AfterTestExecutionCallback {
    @Override
    public void afterTestExecution(ExtensionContext context) {
        String evidence = Program.evidence();
        if (context.getExecutionException().isPresent()) {
            System.err.println(evidence);
        }
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == Hosts.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return context.getRoot().getStore(ExtensionContext.Namespace.create(OnTwoHosts.class))
                .getOrComputeIfAbsent(Hosts.class, key -> make(), Hosts.class);
    }

    private static Hosts make() {
        try {
            return new Hosts();
        } catch (Exception failed) {
            throw new IllegalStateException("network namespaces cannot be made; these tests need root", failed);
        }
    }
}
