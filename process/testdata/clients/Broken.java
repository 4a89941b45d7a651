/** A function that cannot be made. */
public class Broken {
	public Broken() {
		throw new IllegalStateException("no table");
	}

	public Object handle(Object event) {
		return event;
	}
}
